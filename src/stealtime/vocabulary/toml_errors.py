"""What is wrong in a TOML file: the line, the key, and the key that was probably meant."""

import re
import tomllib
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.late_type import LateType
from stealtime.vocabulary.plain_errors import plain_message

_HEAD = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*[=.]""")

_SHOWN = 60
"""Characters of a value that still make a readable sentence."""
_PLACE = re.compile(r" ?\(at (?:line (\d+), column \d+|end of document)\)$")
_NOTATION = "see https://toml.io for the notation"

Path = tuple[str | int, ...]


def parse(text: str, source: str, hint: str = _NOTATION) -> dict[str, Any]:
    """Read TOML; a mark of byte order at its head, as some editors leave it, is no part of it.

    Args:
        text: Of the file.
        source: The name of the file.
        hint: What to do where it is none.

    Raises:
        UsageError: It is not TOML; the message has the line, and the key where one is given twice.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        twice = _given_twice(text, str(error))
        if twice is not None:
            raise UsageError(f"{source}, {twice}", hint="leave one of the two out") from error
        raise UsageError(f"{source} is not TOML: {error}", hint=hint) from error


def _given_twice(text: str, message: str) -> str | None:
    """Name the key or table of which the parser says that it is there already; None where it says something else."""
    place = _PLACE.search(message)
    if place is None or not message.startswith(("Cannot overwrite", "Cannot declare", "Cannot mutate")):
        return None
    lines = text.splitlines()
    number = int(place[1] or len(lines))
    # The parser has read the end of the line when it notices.
    for at in (number, number - 1):
        line = lines[at - 1] if 0 < at <= len(lines) else ""
        if key := _KEY.match(line):
            return f"line {at}: the key {key[1].strip(chr(34) + chr(39))!r} is given twice"
        if head := _HEAD.match(line):
            return f"line {at}: the table [{head[2]}] is given twice"
    return None


def explain(
    error: ValidationError,
    document: dict[str, Any],
    text: str,
    source: str,
    model: type[BaseModel],
    hint: str | None = None,
) -> UsageError:
    """Tell of the first error; an unknown key goes first, because what is missing is often only misspelt.

    Args:
        error: What pydantic found.
        document: What ``text`` holds.
        text: The TOML, to find the line.
        source: The name of the file.
        model: What the document should be.
        hint: What to do where nothing better is known.
    """
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    location = _as_written(first["loc"], document)
    key, where = _told(location, document)
    line = _line_of(text, location)
    place = f"{source}, line {line}" if line is not None else source
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        known = _known_keys(_tables(model, location[:-1], document), _at(document, location[:-1]))
        close = nearest(str(location[-1]), known)
        message = f"unknown key {key!r}{where}"
        hint = f"did you mean {close!r}?" if close else f"known here: {', '.join(known)}"
    elif first["type"] == "missing":
        message = f"the key {key!r}{where} is missing"
    elif first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        # pydantic gives the name of the tag as it would stand in Python: 'probe', with its quotes.
        tag = first["ctx"]["discriminator"].strip("'")
        found = first["input"].get(tag) if isinstance(first["input"], dict) else None
        _, where = _told((*location, tag), document)
        message = f"{tag}{where} is {found!r}, which is no {tag}" if found else f"the key {tag!r}{where} is missing"
        known = [value for one in _tables(model, location, document) for value in _literals(one, tag)]
        close = nearest(str(found), known)
        hint = f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"
    elif first["type"] == "value_error":
        message = f"{key}{where}: {message}" if key or where else message
    else:
        message = f"{key} = {_shown(first['input'])}{where}: {plain_message(first)}"
    return UsageError(f"{place}: {message}", hint=hint)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Give the known name that ``name`` was probably meant to be."""
    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def _as_written(location: Sequence[str | int], document: Any) -> Path:
    """Leave out what pydantic puts between the keys of the file: the tags and types of a union's members."""
    written: list[str | int] = []
    value = document
    for position, part in enumerate(location):
        is_last = position == len(location) - 1
        if isinstance(value, dict) and (part in value or is_last):
            written.append(part)
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            written.append(part)
            value = value[part] if part < len(value) else None
    return tuple(written)


def _told(location: Path, document: Any) -> tuple[str, str]:
    """Name a key as a reader of the file counts, from 1: ``duration``, and `` in [[probes]] 2``."""
    where = ""
    names: list[str] = []
    table: list[str] = []
    value = document
    for part in location:
        if isinstance(part, str):
            names.append(part)
            value = value.get(part) if isinstance(value, dict) else None
            continue
        value = value[part] if isinstance(value, list) and part < len(value) else None
        if isinstance(value, dict):
            table += names
            where = f" in [[{'.'.join(table)}]] {part + 1}{where}"
            names = []
        else:
            names = [f"value {part + 1} of {'.'.join(names)}"]
    return ".".join(names), where


def _shown(value: Any) -> str:
    """Show a value as the file has it, as far as it is short."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _tables(model: type[BaseModel], location: Path, document: Any) -> list[type[BaseModel]]:
    """Give what the table at ``location`` may be: several models where a key in it tells which."""
    models = [model]
    for position, part in enumerate(location):
        if isinstance(part, str):
            fields = _chosen(models, _at(document, location[:position])).model_fields
            models = _models(next(field.annotation for name, field in fields.items() if part in (name, field.alias)))
    return models


def _known_keys(models: list[type[BaseModel]], table: Any) -> list[str]:
    return [field.alias or name for name, field in _chosen(models, table).model_fields.items()]


def _chosen(models: list[type[BaseModel]], table: Any) -> type[BaseModel]:
    """Give the model whose tag stands in the table; the first one where none does."""
    written = table if isinstance(table, dict) else {}
    return next(
        (one for one in models for name in one.model_fields if written.get(name) in _literals(one, name)), models[0]
    )


def _literals(model: type[BaseModel], name: str) -> tuple[Any, ...]:
    """Give the values that a key may have, where they are listed."""
    annotation = model.model_fields[name].annotation
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _at(document: Any, location: Path) -> Any:
    for part in location:
        document = document[part]
    return document


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Give the models inside ``Short | None``, ``list[Annotated[A | B, ...]]`` and the like."""
    if isinstance(late := next(iter(getattr(annotation, "__metadata__", ())), None), LateType):
        return _models(late.make())
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    origin = get_origin(annotation)
    if origin in (list, tuple, Union, UnionType) or hasattr(annotation, "__metadata__"):
        return [model for argument in get_args(annotation) for model in _models(argument)]
    return []


def _line_of(text: str, location: Path) -> int | None:
    """Find the line of a key such as ``("probes", 1, "loop")``, or of the table that it should stand in."""
    lines = _lines(text)
    for length in range(len(location), 0, -1):
        # A key may stand in several tables, `[[define]]` for one: the first of them is told.
        first = [number for path, number in lines.items() if path[:length] == location[:length]]
        if first:
            return min(first)
    return None


def _lines(text: str) -> dict[Path, int]:
    """Give the line of every key and every table head; what stands inside a value belongs to the value's line."""
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        if head := _HEAD.match(line):
            names = [name.strip().strip("\"'") for name in head[2].split(".")]
            table = ()
            for name in names[:-1]:
                table = (*table, name)
                if table in counts:
                    table = (*table, counts[table] - 1)
            table = (*table, names[-1])
            if head[1] == "[[":
                counts[table] = counts.get(table, 0) + 1
                table = (*table, counts[table] - 1)
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, key[1].strip("\"'")), number)
    return lines
