"""Finds published figures by name, among those of all studies, and reads them."""

import csv
import tomllib
from difflib import get_close_matches
from importlib.resources.abc import Traversable

from pydantic import ValidationError

from stealtime.report.claims.model import Published
from stealtime.report.claims.statements import statement_names
from stealtime.report.studies import studies
from stealtime.vocabulary.errors import StealtimeError, UsageError

_HINT = "install stealtime anew: these files are part of it"


def published_names(study: str | None = None) -> list[str]:
    """List the publications whose figures come with the studies, or with one of them."""
    return sorted(name for name, (owner, _) in _folders().items() if study in (None, owner))


def find_published(name: str) -> Published:
    """Read the figures of a publication.

    Raises:
        UsageError: There are none of that name.
        StealtimeError: The files that came with stealtime are damaged.
    """
    folders = _folders()
    if name not in folders:
        known = sorted((*folders, *statement_names()))
        close = get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known)}"
        raise UsageError(f"there are no published figures named {name!r}", hint=hint)
    _, folder = folders[name]
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
    machines = [machine.get("role") for machine in document.get("machines", [])]
    rows = [
        {key: value for key, value in line.items() if key not in machines}
        | {"figures": {role: line[role] for role in machines if role in line}}
        for line in csv.DictReader(figures.splitlines())
    ]
    try:
        return Published.model_validate({**document, "name": name, "rows": rows})
    except ValidationError as error:
        first = error.errors()[0]
        raise StealtimeError(f"{_place(name, first['loc'])}: {first['msg']}", hint=_HINT) from error


def _folders() -> dict[str, tuple[str, Traversable]]:
    return {
        entry.name.removesuffix(".csv"): (study.name, study.published)
        for study in studies()
        if study.published is not None
        for entry in study.published.iterdir()
        if entry.name.endswith(".csv")
    }


def _place(name: str, location: tuple[int | str, ...]) -> str:
    if len(location) > 1 and location[0] == "rows" and isinstance(location[1], int):
        # The heading is line 1.
        return f"{name}.csv is damaged, line {location[1] + 2}, {'.'.join(str(part) for part in location[2:])}"
    return f"{name}.toml is damaged, {'.'.join(str(part) for part in location) or 'with its figures'}"
