"""The set-up scripts on machines where something is missing: one sentence, the exact command, exit code 2."""

import contextlib
import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = "src/stealtime/doctor/debian_packages.txt"
USED_PROGRAMS = ("bash", "dirname", "sed", "sort", "env", "unshare")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copy the scripts beside a package table of their own, and link the few programs that they use."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    table = tmp_path / TABLE
    table.parent.mkdir(parents=True)
    table.write_text(
        "# a comment | with | bars | in it\n"
        "run  | bash             | bash         | is there\n"
        "run  | no-such-program  | the-package  | is not\n"
        "run  | /no/such/file-*  | libfile-dev  | is not either\n"
        "test | no-such-test     | test-package | is of another ring\n"
    )
    (tmp_path / "bin").mkdir()
    for program in USED_PROGRAMS:
        found = shutil.which(program)
        assert found, program
        (tmp_path / "bin" / program).symlink_to(found)
    return tmp_path


def install_packages(tree: Path, *rings: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run tools/packages.sh with nothing on PATH but the tree's own programs."""
    environment = {"PATH": str(tree / "bin"), "HOME": str(tree)}
    argv = [*before, "bash", "tools/packages.sh", *rings]
    return subprocess.run(argv, cwd=tree, env=environment, capture_output=True, text=True, check=False)


def test_nothing_is_said_or_done_where_nothing_is_missing(tree: Path) -> None:
    done = install_packages(tree, "bench")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_apt_the_missing_packages_of_the_ring_are_named(tree: Path) -> None:
    done = install_packages(tree, "run")
    assert done.returncode == 2
    assert "error: missing: libfile-dev the-package, and this is no Debian\n" in done.stderr
    assert "hint:" in done.stderr


def test_without_root_the_exact_command_is_printed(tree: Path) -> None:
    namespace = ("unshare", "--user")
    if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this kernel lets nobody be somebody else: no user namespaces")
    apt_get = tree / "bin" / "apt-get"
    apt_get.write_text("#!/bin/sh\necho must not be called >&2\nexit 99\n")
    apt_get.chmod(0o755)
    tree.chmod(0o755)
    done = install_packages(tree, "run", "test", before=namespace)
    assert done.returncode == 2
    assert done.stderr == (
        "error: missing Debian packages: libfile-dev test-package the-package\n"
        "hint: sudo apt-get update && sudo apt-get install --no-install-recommends "
        "libfile-dev test-package the-package\n"
    )


def test_a_failed_step_shows_the_end_of_its_log_and_where_it_is(tree: Path) -> None:
    for program in ("mkdir", "tail", "seq"):
        (tree / "bin" / program).symlink_to(str(shutil.which(program)))
    script = 'source tools/steps.sh; step "count to fifty" bash -c "seq 50; exit 7"'
    environment = {"PATH": str(tree / "bin"), "HOME": str(tree)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 7
    assert "count to fifty ... failed (exit code 7)\n    11\n" in done.stderr
    assert done.stderr.endswith("hint: the whole log is in .tools/logs/count-to-fifty.log\n")
    assert (tree / ".tools/logs/count-to-fifty.log").read_text().splitlines() == [str(n) for n in range(1, 51)]


def test_make_lists_every_target_that_it_promises(tmp_path: Path) -> None:
    done = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, check=True, env=dict(os.environ))
    listed = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("make ")}
    assert listed >= {"help", "setup", "run", "test", "lint", "format", "bench", "fuzz", "wheel", "clean"}


COUNTING = """
source tools/steps.sh
told() { echo "$(wc -l <"$1") of 3"; }
how_far=told step "count to three" bash -c 'echo 1; echo 2; echo 3; until [[ -e go ]]; do sleep 1; done'
step "do nothing" true
"""


@pytest.fixture
def counting(tree: Path) -> Path:
    """Have a second last a moment, and a step that ends when a file is there."""
    for program in ("mkdir", "wc", "true", "tput"):
        (tree / "bin" / program).symlink_to(str(shutil.which(program)))
    sleep = tree / "bin" / "sleep"
    sleep.write_text(f"#!/bin/sh\nexec {shutil.which('sleep')} 0.01\n")
    sleep.chmod(0o755)
    return tree


def environment_of(tree: Path, **more: str) -> dict[str, str]:
    return {"PATH": str(tree / "bin"), "HOME": str(tree), "SAY_EVERY_S": "0", **more}


def test_a_long_step_says_how_far_it_is_line_by_line(counting: Path) -> None:
    argv = ["bash", "-c", COUNTING]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=counting, env=environment_of(counting), stderr=pipe, text=True) as step:
        assert step.stderr is not None
        first = next(line for line in step.stderr if "3 of 3" in line)
        (counting / "go").touch()
        rest = step.stderr.read()
    assert re.fullmatch(r"(count to three \.\.\. | {4})3 of 3, \d+ s\n", first)
    assert re.fullmatch(r" {4}done \(\d+ s\)\ndo nothing \.\.\. done \(0 s\)\n", rest)


def test_on_a_terminal_the_line_of_a_long_step_moves(counting: Path) -> None:
    ours, theirs = pty.openpty()
    argv = ["bash", "-c", COUNTING]
    environment = environment_of(counting, TERM="xterm")
    with subprocess.Popen(argv, cwd=counting, env=environment, stderr=theirs) as step:
        os.close(theirs)
        shown = b""
        while b"3 of 3" not in shown:
            shown += os.read(ours, 1000)
        (counting / "go").touch()
        assert step.wait() == 0
    # What was written may come in several pieces; EIO is the end of a terminal that nobody holds any more.
    with contextlib.suppress(OSError):
        while more := os.read(ours, 10_000):
            shown += more
    os.close(ours)
    lines = shown.decode().split("\r\n")
    left = [re.sub(r"\d+ s", "N s", line.rpartition("\033[K")[2]) for line in lines]
    assert left == ["count to three ... done (N s)", "do nothing ... done (N s)", ""]


def test_a_terminal_that_cannot_move_gets_lines(counting: Path) -> None:
    (counting / "go").touch()
    ours, theirs = pty.openpty()
    environment = environment_of(counting, TERM="dumb")
    subprocess.run(["bash", "-c", COUNTING], cwd=counting, env=environment, stderr=theirs, check=True)
    os.close(theirs)
    assert b"\033" not in os.read(ours, 10_000)
    os.close(ours)


def test_what_tests_and_benchmarks_ask_for_is_run_by_one_of_them() -> None:
    # A package that nothing needs keeps a machine that has none of it from all the rest.
    rows = [line.split("|") for line in (ROOT / TABLE).read_text().splitlines() if not line.startswith("#")]
    asked = [(ring.strip(), program.strip()) for ring, program, *_ in rows]
    for ring, folders in (("bench", ["benchmarks"]), ("test", ["tests", "src", "tools", "crates"])):
        for program in (program for of, program in asked if of == ring and not program.startswith("/")):
            found = subprocess.run(
                ["grep", "-rlwF", "--include=*.py", "--include=*.sh", "--include=*.rs", program, *folders],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            ).stdout.splitlines()
            assert [one for one in found if "/doctor/" not in one and "test_doctor" not in one], f"{ring}: {program}"
