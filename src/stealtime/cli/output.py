"""What commands write: data to stdout, everything else to stderr."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console


def print_document(document: "BaseModel | Mapping[str, Any]") -> None:
    """Write one JSON document, and nothing else, to stdout.

    Args:
        document: A model or a mapping; it holds its own ``schema_version``.
    """
    if isinstance(document, Mapping):
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    else:
        text = document.model_dump_json(indent=2)
    sys.stdout.write(text + "\n")


def data_console() -> "Console":
    """Give a console on stdout. Where no terminal says how wide it is, it is wide enough for every table."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH_WITHOUT_TERMINAL)
    return console


def message_console() -> "Console":
    """Give a console on stderr, for progress and remarks."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


_WIDTH_WITHOUT_TERMINAL = 120
