"""Parameters that several commands share, and how their text is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from stealtime.cli import completion
from stealtime.vocabulary.errors import UsageError

RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="The run: its name, part of its name, or its folder.  [default: last]",
        show_default=False,
        autocompletion=completion.runs,
    ),
]


def _with_runs(folder: Path | None) -> Path | None:
    if folder is not None and not folder.is_dir():
        why = "is no folder" if folder.exists() else "does not exist"
        raise UsageError(f"--runs: {folder} {why}", hint="name the folder of `stealtime run`, or leave it out")
    return folder


RunsFolder = Annotated[
    Path | None,
    typer.Option(
        "--runs",
        metavar="DIR",
        help="Where the runs are.  [default: $XDG_DATA_HOME/stealtime/runs]",
        callback=_with_runs,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout instead.")]


def duration_of(option: str, text: str | None) -> int | None:
    """Read the duration of an option, in ns.

    Raises:
        UsageError: It is none; the message names the option.
    """
    if text is None:
        return None
    from stealtime.vocabulary.quantities import parse_duration_ns

    return _read(parse_duration_ns, option, text)


def analysed_duration_of(option: str, text: str | None) -> int | None:
    """Read the duration of an option of ``sched``, in ns.

    Raises:
        UsageError: It is none, or longer than the analysis reckons with; the message names the option.
    """
    if text is None:
        return None
    from stealtime.schedulability.longest import not_longer
    from stealtime.vocabulary.quantities import parse_duration_ns

    return _read(lambda one: not_longer(parse_duration_ns(one)), option, text)


def numbers_of(option: str, text: str) -> list[int]:
    """Read a list of whole numbers such as ``2,10,100``.

    Raises:
        UsageError: It is none; the message names the option.
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"{option}: {text!r} is not a list of whole numbers", hint="numbers with commas between them: 2,10,100"
        ) from None


def names_of(values: list[str] | None) -> tuple[str, ...]:
    """Give the names of a repeatable option whose values may also be lists: ``-P uml,native``."""
    return tuple(name.strip() for value in values or [] for name in value.split(",") if name.strip())


def _read(parse: Callable[[str], int], option: str, text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        message, _, expected = str(error).partition("; expected ")
        hint = f"give {expected}" if expected else "give a shorter one"
        if " such as " in message:
            hint = f"a number with its unit: `{option} 500ms` is half a second"
        raise UsageError(f"{option}: {message}", hint=hint) from None
