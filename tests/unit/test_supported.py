"""On a machine that stealtime does not run on, building and starting it end with one sentence and what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = f"import runpy; runpy.run_path({str(ROOT / 'setup.py')!r})"
START = "from stealtime.start import main; main()"


def run_on(system: str, machine: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that takes its machine for another."""
    other = f"import platform, sys; sys.platform = {system!r}; platform.machine = lambda: {machine!r}; {code}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("code", [BUILD, START], ids=["built", "started"])
@pytest.mark.parametrize(
    ("system", "machine", "told"),
    [
        ("darwin", "arm64", "this is macOS on arm64"),
        ("win32", "AMD64", "this is Windows on AMD64"),
        ("linux", "aarch64", "this is Linux on aarch64"),
    ],
)
def test_elsewhere_one_sentence_says_what_is_missing(system: str, machine: str, told: str, code: str) -> None:
    done = run_on(system, machine, code)
    sentence, hint = done.stderr.splitlines()
    assert sentence.startswith("error: ")
    assert told in sentence
    assert hint.startswith("hint: ")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_kernel_that_calls_its_machine_otherwise_is_taken_at_its_word() -> None:
    # Not pretended: the kernel tells this process another machine (man 2 personality).
    done = subprocess.run(["setarch", "i686", sys.executable, "-c", START], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "this is Linux on i686" in done.stderr


def test_here_it_starts() -> None:
    done = run_on("linux", "x86_64", "sys.argv = ['stealtime', '--help']; " + START)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
