"""Runs a tutorial as it is written: its commands in their order, in one shell, by a reader who has nothing yet.

A page has its commands in blocks of ``sh``. A block of ``text`` right after one is what it prints: each of its lines
must be printed, in this order, with other figures and other spaces; ``...`` stands for anything. What a reader waits
for is made shorter by a table beside the test, and what differs on each machine is listed there: each entry of either
must occur in the page. Blocks below the comment ``<!-- long -->`` are for ``make truth``.

A command must end with 0, unless its block shows how it ends with ``echo "exit code $?"``.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from platformdirs import user_cache_path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"(?P<long><!-- long -->\s*)?^```(?P<kind>sh|text)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
_MARK = "end of block"
_FAILED = "this failed with"
_SHOWS_ITS_END = 'echo "exit code $?"'
_RUN = re.compile(r"\d{8}T\d{6}Z-[\w-]+")
_UNIT = r"(?: ?(?:ns|us|µs|ms|min|s|h|KiB|MiB|GiB|kB|MB|B|x)\b| ?%)?"
_FIGURE = re.compile(
    rf"(?<![\w/])(?<!exit code )[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?{_UNIT}\N{{MULTIPLICATION SIGN}}?(?![\w/])"
)
_UNIT_OF_COLUMN = re.compile(r"(?<=\s)(?:ns|us|µs|ms|s)(?=\s|$)")
_RULE_OR_BAR = re.compile("[─▁-█]+")
_MARKS = re.compile(r"(?<=\S)[~*†‡]+(?=\s|$)")
"""Of a figure in a table: whether it was disturbed, for one, is a matter of the moment."""


@dataclass(frozen=True)
class Step:
    """A block of commands, and the lines that it promises."""

    commands: str
    promised: tuple[str, ...] = ()
    is_long: bool = False


@dataclass(frozen=True)
class Printed:
    """What a block printed, and what of it failed."""

    lines: tuple[str, ...]
    failures: tuple[str, ...]


def steps_of(page: str) -> list[Step]:
    """Give the blocks of a page.

    Raises:
        ValueError: Something is printed before there was a command.
    """
    steps: list[Step] = []
    for found in _BLOCK.finditer(page):
        if found["kind"] == "sh":
            steps.append(Step(found["body"], is_long=found["long"] is not None))
        elif not steps or steps[-1].promised:
            raise ValueError(f"no command prints this: {found['body']}")
        else:
            steps[-1] = Step(steps[-1].commands, tuple(found["body"].splitlines()), steps[-1].is_long)
    return steps


def shorter(steps: Sequence[Step], table: Mapping[str, str]) -> list[Step]:
    """Give the steps with what is waited for replaced.

    Raises:
        ValueError: An entry of the table is in no command of the page.
    """
    page = "".join(step.commands for step in steps)
    if unused := [written for written in table if written not in page]:
        raise ValueError(f"these are in no command of the page: {unused}")

    def replaced(commands: str) -> str:
        for written, instead in table.items():
            commands = commands.replace(written, instead)
        return commands

    return [Step(replaced(step.commands), step.promised, step.is_long) for step in steps]


def shape(line: str) -> str:
    """Give a line without its figures, names of runs and columns: what is the same on every machine."""
    text = _FIGURE.sub("#", _RUN.sub("RUN", _MARKS.sub("", _RULE_OR_BAR.sub("─", line))))
    text = _UNIT_OF_COLUMN.sub("#", text)
    return re.sub(r"#(?: #)+", "#", " ".join(text.split()))


def missing(promised: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Give the promised lines that were not printed, or not in their order."""
    rest = iter([shape(line) for line in printed])
    return [line for line in promised if line.strip() not in {"", "..."} and not _is_in(line, rest)]


def _is_in(promised: str, rest: Iterator[str]) -> bool:
    wanted = re.compile(".*".join(re.escape(shape(part)) for part in promised.split("...")))
    return any(wanted.fullmatch(line) for line in rest)


def carry_out(steps: Sequence[Step], folder: Path, timeout_s: float) -> list[Printed]:
    """Run all steps in one shell, with a home of its own below ``folder``; give what each printed.

    Raises:
        AssertionError: The shell ended before the last step.
    """
    home = folder / "home"
    home.mkdir()
    script = "".join(f"{step.commands}printf '\\n%s\\n' '{_MARK}'\n" for step in steps)
    trap = f'trap \'printf "%s %s: %s\\n" "{_FAILED}" "$?" "$BASH_COMMAND"\' ERR\n'
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{trap}{script}"],
        cwd=ROOT,
        env=_surroundings(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
    *parts, _ = done.stdout.split(f"\n{_MARK}\n")
    assert len(parts) == len(steps), f"the shell ended in step {len(parts) + 1}: {done.stdout}"
    return [_printed(step, part.splitlines()) for step, part in zip(steps, parts, strict=True)]


def _printed(step: Step, lines: Sequence[str]) -> Printed:
    failures = [line for line in lines if line.startswith(_FAILED)]
    said = [line for line in lines if not line.startswith(_FAILED)]
    return Printed(tuple(said), () if _SHOWS_ITS_END in step.commands else tuple(failures))


def _surroundings(home: Path) -> dict[str, str]:
    """Give the environment of somebody new, who has the guest kernels already: they are fetched once for all tests."""
    # How wide a page is must not depend on the terminal that runs the tests.
    unset = {"XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "COLUMNS"}
    return {name: value for name, value in os.environ.items() if name not in unset} | {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(user_cache_path()),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


@dataclass(frozen=True)
class Tutorial:
    """A page, and in what a test of it differs from a reader.

    Attributes:
        page: Its name in ``docs``.
        table: What is made shorter: as it is written, and what is run instead.
        own: Lines that differ on each machine, by their beginnings.
    """

    page: str
    table: Mapping[str, str]
    own: tuple[str, ...] = ()

    def steps(self) -> list[Step]:
        """Give its blocks as they are to be run, and what they print on every machine.

        Raises:
            ValueError: An entry of ``table`` or ``own`` is not in the page.
        """
        steps = shorter(steps_of((ROOT / "docs" / self.page).read_text()), self.table)
        promised = [line for step in steps for line in step.promised]
        if unused := [words for words in self.own if not any(line.startswith(words) for line in promised)]:
            raise ValueError(f"no line of {self.page} begins so: {unused}")
        return [
            replace(step, promised=tuple(line for line in step.promised if not line.startswith(self.own)))
            for step in steps
        ]


def follow(tutorial: Tutorial, folder: Path, *, in_full: bool, timeout_s: float) -> None:
    """Run a tutorial, and see that it ends and prints as its page says.

    Args:
        tutorial: Which.
        folder: For what a reader would have at home.
        in_full: Whether the long blocks are run, too.
        timeout_s: For all of it.
    """
    steps = [step for step in tutorial.steps() if in_full or not step.is_long]
    for step, printed in zip(steps, carry_out(steps, folder, timeout_s), strict=True):
        evidence = "\n".join(("", step.commands, *printed.lines))
        assert not printed.failures, f"{tutorial.page}: {printed.failures}{evidence}"
        assert not (lost := missing(step.promised, printed.lines)), f"{tutorial.page} promises {lost}{evidence}"
