"""What a login shell over ssh says, and what of it is ours."""

import subprocess

from stealtime.lab.platforms.ssh_shell import ASK_HOST, MarkedShell, parse_host
from stealtime.lab.processors import CpuSets, granted_cpus


def ran(command: str) -> subprocess.CompletedProcess[str]:
    """A login shell that greets everybody before and after."""
    greeting = f"echo 'Welcome to board'; {command}; status=$?; echo bye; exit $status"
    return subprocess.run(["sh", "-c", greeting], capture_output=True, text=True, check=False)


def test_a_banner_is_no_part_of_the_answer() -> None:
    shell = MarkedShell()
    done = ran(shell.command("echo one; printf two; true"))
    assert shell.output(done.stdout) == "one\ntwo"
    assert done.returncode == 0


def test_the_exit_status_is_that_of_the_command() -> None:
    shell = MarkedShell()
    done = ran(shell.command("echo half; exit 7"))
    assert (done.returncode, shell.output(done.stdout)) == (7, None)
    assert ran(shell.command("false")).returncode == 1


def test_a_shell_that_ran_nothing_has_no_output() -> None:
    assert MarkedShell().output("This account is not available\n") is None


def test_marks_are_no_part_of_the_command_and_no_two_are_alike() -> None:
    one, other = MarkedShell(), MarkedShell()
    assert one.mark != other.mark
    assert one.beginning.decode().strip() not in one.command("true")


def test_this_machine_tells_its_system_and_its_cpus() -> None:
    shell = MarkedShell()
    host = parse_host(shell.output(ran(shell.command(ASK_HOST)).stdout) or "")
    assert host.system.startswith("Linux ")
    assert host.cpus is not None
    assert host.cpus.granted == granted_cpus()


def test_a_board_with_isolated_cpus_and_no_taskset_can_have_those_too() -> None:
    told = "system: Linux 6.1.0-rt x86_64\ninherited:\t0-1\nisolated: 2-3\nnohz_full: (null)\n"
    host = parse_host(told)
    assert host.system == "Linux 6.1.0-rt x86_64"
    assert host.cpus == CpuSets(inherited=(0, 1), granted=(0, 1, 2, 3), isolated=(2, 3))


def test_what_is_no_linux_is_shown_as_it_answered() -> None:
    assert parse_host("Microsoft Windows [Version 10]").system == "Microsoft Windows [Version 10]"
    assert parse_host("system: Darwin 23 arm64\n").cpus is None
