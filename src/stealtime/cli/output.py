"""What commands write: data to stdout, everything else to stderr."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from stealtime.vocabulary.errors import ExitCode, StealtimeError, weightiest
from stealtime.vocabulary.visible import visible, visible_in_json

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console, RenderableType


def print_document(document: "BaseModel | Mapping[str, Any]") -> None:
    """Write one JSON document, and nothing else, to stdout.

    Args:
        document: A model or a mapping; it holds its own ``schema_version``.
    """
    if isinstance(document, Mapping):
        text = json.dumps(document, indent=2, ensure_ascii=_must_be_ascii(), allow_nan=False)
    else:
        text = document.model_dump_json(indent=2, ensure_ascii=_must_be_ascii())
    sys.stdout.write(f"{visible_in_json(text)}\n")


def print_line(text: str) -> None:
    """Write a line of data to stdout: a path, for one."""
    sys.stdout.write(f"{visible(text)}\n")


def data_console() -> "Console":
    """Give a console on stdout. Where no terminal says how wide it is, it is wide enough for every table."""
    from stealtime.cli.console import PlainConsole

    console = PlainConsole()
    if not console.is_terminal:
        console = PlainConsole(width=_WIDTH_WITHOUT_TERMINAL)
    return console


def print_table(table: "RenderableType") -> None:
    """Write a table to stdout: at least as wide as it is, where no terminal says how wide that may be."""
    from rich.measure import Measurement

    from stealtime.cli.console import PlainConsole

    console = data_console()
    if not console.is_terminal:
        needed = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
        console = PlainConsole(width=max(console.width, needed))
    console.print(table)


def message_console() -> "Console":
    """Give a console on stderr, for progress and remarks."""
    from stealtime.cli.console import PlainConsole

    return PlainConsole(stderr=True)


def tell_error(message: str, hint: str | None) -> None:
    sys.stderr.write(f"error: {visible(message)}\n")
    if hint is not None:
        sys.stderr.write(f"hint: {visible(hint)}\n")


def write_last(code: ExitCode, steps: Iterable[Callable[[], object]]) -> ExitCode:
    """Write files once all has been said: one that cannot be written is told, keeps no other back and hides no verdict.

    Args:
        code: What the command ends with if all of them can be written.
        steps: Each raises ``StealtimeError`` if it cannot.

    Returns:
        The exit code that counts.
    """
    for step in steps:
        # What was said is there, whatever becomes of this process meanwhile.
        sys.stdout.flush()
        try:
            step()
        except StealtimeError as error:
            tell_error(error.message, error.hint)
            code = weightiest(code, error.exit_code)
    return code


def _must_be_ascii() -> bool:
    """Tell whether JSON must escape what stdout cannot encode: a name that is changed would be another name."""
    return (sys.stdout.encoding or "utf-8").lower().replace("_", "-") not in ("utf-8", "utf8")


_WIDTH_WITHOUT_TERMINAL = 120
_WIDEST = 10_000
