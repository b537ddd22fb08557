"""A virtual CPU that is moved while a trial runs is found, with when."""

from pathlib import Path

from stealtime.campaigns.staying import Staying
from stealtime.lab.platforms.affinity import HostThread

VCPU = HostThread("vcpu", "CPU 0/TCG", 41, (1,))
EMULATOR = HostThread("emulator", "qemu", 40, (0,))


def at(proc: Path, cpus: str, migrations: int, tid: int = 41) -> None:
    (proc / str(tid)).mkdir(exist_ok=True)
    (proc / str(tid) / "status").write_text(f"Name:\tqemu\nCpus_allowed:\t2\nCpus_allowed_list:\t{cpus}\n")
    (proc / str(tid) / "sched").write_text(f"CPU 0/TCG (41)\nse.nr_migrations   :  {migrations}\n")


def begun(proc: Path) -> Staying:
    at(proc, "1", 3)
    return Staying.begin([("the machine", [EMULATOR, VCPU])], proc)


def test_a_vcpu_that_stays_is_fine(tmp_path: Path) -> None:
    stays = begun(tmp_path)
    stays.look()
    stays.end()
    assert stays.finding is None


def test_a_vcpu_that_was_put_elsewhere_invalidates_and_the_time_is_told(tmp_path: Path) -> None:
    stays = begun(tmp_path)
    stays.look()
    at(tmp_path, "0", 4)
    stays.look()
    at(tmp_path, "1", 5)
    stays.end()
    assert stays.finding is not None
    assert (stays.finding.code, stays.finding.level) == ("cpu_changed", "invalidates")
    assert stays.finding.text.startswith(
        "the vCPU thread CPU 0/TCG of the machine was to run on CPU 1, and was put on CPU 0 instead between 0.0 s and"
    )


def test_a_vcpu_that_was_away_and_is_back_is_found_by_what_the_kernel_counted(tmp_path: Path) -> None:
    stays = begun(tmp_path)
    at(tmp_path, "1", 5)
    stays.end()
    assert stays.finding is not None
    assert "was moved 2 times by the kernel meanwhile" in stays.finding.text


def test_one_that_roams_may_migrate_and_one_that_is_gone_says_nothing(tmp_path: Path) -> None:
    at(tmp_path, "0-1", 3)
    roams = Staying.begin([("the machine", [HostThread("vcpu", "CPU 0/TCG", 41, (0, 1))])], tmp_path)
    at(tmp_path, "0-1", 99)
    roams.end()
    assert roams.finding is None
    gone = Staying.begin([("neighbour 1", [HostThread("vcpu", "CPU 0/TCG", 42, (0,))])], tmp_path)
    gone.end()
    assert gone.finding is None
