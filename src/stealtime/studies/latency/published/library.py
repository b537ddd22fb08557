"""Finds published figures by name and reads them: ``NAME.csv`` holds the figures, ``NAME.toml`` their source."""

import csv
import tomllib
from difflib import get_close_matches
from functools import cache
from importlib import resources

from pydantic import ValidationError

from stealtime.studies.latency.published.model import Published
from stealtime.vocabulary.errors import StealtimeError, UsageError

_HINT = "install stealtime anew: these files are part of it"


def published_names() -> list[str]:
    """List the publications whose figures come with stealtime."""
    folder = resources.files("stealtime.studies.latency.published")
    return sorted(entry.name.removesuffix(".csv") for entry in folder.iterdir() if entry.name.endswith(".csv"))


@cache
def find_published(name: str) -> Published:
    """Read the figures of a publication.

    Raises:
        UsageError: There are none of that name.
        StealtimeError: The files that came with stealtime are damaged.
    """
    known = published_names()
    if name not in known:
        close = get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known)}"
        raise UsageError(f"there are no published figures named {name!r}", hint=hint)
    folder = resources.files("stealtime.studies.latency.published")
    source, figures = ((folder / f"{name}.{suffix}").read_text("utf-8") for suffix in ("toml", "csv"))
    return read_published(name, source, figures)


def read_published(name: str, source: str, figures: str) -> Published:
    """Put the source (TOML) and the figures (CSV with a heading) of a publication together.

    Raises:
        StealtimeError: They are damaged or do not fit together; the message says where.
    """
    try:
        document = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise StealtimeError(f"{name}.toml is damaged: {error}", hint=_HINT) from error
    try:
        return Published.model_validate({**document, "name": name, "rows": list(csv.DictReader(figures.splitlines()))})
    except ValidationError as error:
        first = error.errors()[0]
        raise StealtimeError(f"{_place(name, first['loc'])}: {first['msg']}", hint=_HINT) from error


def _place(name: str, location: tuple[int | str, ...]) -> str:
    if len(location) > 1 and location[0] == "rows" and isinstance(location[1], int):
        # The heading is line 1.
        return f"{name}.csv is damaged, line {location[1] + 2}, {'.'.join(str(part) for part in location[2:])}"
    return f"{name}.toml is damaged, {'.'.join(str(part) for part in location) or 'with its figures'}"
