"""What ``make packages`` has built: the tests beside this file are its last step, and build nothing themselves."""

import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "dist" / "packages"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def only(pattern: str) -> Path:
    found = sorted(BUILT.glob(pattern))
    assert len(found) == 1, f"{pattern} in {BUILT}: {found}; `make packages` builds it"
    return found[0]


def run(*argv: str | Path, **options: object) -> str:
    """Run a program; its stdout. What it said is in the assertion if it fails."""
    words = [str(word) for word in argv]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


def help_commands(program: Path) -> set[str]:
    """Give the commands that a program of ours lists."""
    listed = run(program, "--help").split("\nCommands:\n", 1)[1].split("\n\n", 1)[0]
    return {line.split()[0] for line in listed.splitlines() if line[:2] == "  " and line[2] != " "} - {"help"}
