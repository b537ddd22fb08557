"""Windows of a time-partitioned hypervisor (ARINC 653) as a supply: a table that repeats in every major frame."""

import re
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from stealtime.schedulability.longest import AnalysedNs, not_longer
from stealtime.schedulability.supply import Supply
from stealtime.vocabulary import toml_errors
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.own_text import read_own_text
from stealtime.vocabulary.quantities import format_duration, parse_duration_ns
from stealtime.vocabulary.toml_table import Table

PREFIX = "windows:"
_HINT = "`stealtime schema windows` prints what a table of windows may hold"
_ZERO = re.compile(r"0+(\.0+)?\s*[A-Za-zµ]*")


def _offset_from(value: Any, info: ValidationInfo) -> int:
    if not isinstance(value, str):
        raise ValueError(f'{value!r} is not text; expected an offset such as "0ms" or "25ms"')  # noqa: TRY004 - pydantic shows ValueError
    return 0 if _ZERO.fullmatch(value.strip()) else parse_duration_ns(value)


OffsetNs = Annotated[
    int,
    BeforeValidator(_offset_from),
    AfterValidator(not_longer),
    PlainSerializer(format_duration, when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["0ms", "25ms"]}),
]
"""A time that may be 0."""


class WindowTable(Table):
    """One window."""

    offset: OffsetNs
    """From the begin of the major frame."""
    duration: AnalysedNs
    """How long the partition runs."""
    partition: Annotated[str, Field(min_length=1)] = "partition"
    """Who runs in it."""


class WindowFile(Table):
    """``FILE`` of ``--supply windows:FILE``: the schedule of one CPU."""

    major_frame: AnalysedNs
    """After it the table begins again."""
    windows: Annotated[list[WindowTable], Field(min_length=1)]
    """Of all partitions or of one, in any order."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        end, last = 0, None
        for one in sorted(self.windows, key=lambda one: one.offset):
            if last is not None and one.offset < end:
                raise ValueError(
                    f"the windows of {last.partition!r} at {format_duration(last.offset)} and of {one.partition!r} at "
                    f"{format_duration(one.offset)} overlap"
                )
            end, last = one.offset + one.duration, one
            if end > self.major_frame:
                raise ValueError(
                    f"the window of {one.partition!r} at {format_duration(one.offset)} ends at {format_duration(end)}, "
                    f"after the major frame of {format_duration(self.major_frame)}"
                )
        return self

    def partitions(self) -> list[str]:
        return sorted({one.partition for one in self.windows})


def read_window_file(path: Path) -> WindowFile:
    """Read and check a table of windows.

    Raises:
        UsageError: It is no TOML, or windows overlap or do not fit into the major frame.
    """
    text = read_own_text(path, "table of windows")
    document = toml_errors.parse(text, str(path))
    try:
        return WindowFile.model_validate(document)
    except ValidationError as error:
        raise toml_errors.explain(error, document, text, str(path), WindowFile, _HINT) from None


def windows_supply(text: str) -> Supply:
    """Read ``windows:FILE``, or ``windows:FILE#PARTITION`` where the file has several.

    Raises:
        UsageError: As :func:`read_window_file`, or there is no such partition, or none was chosen of several.
    """
    name, _, partition = text.removeprefix(PREFIX).partition("#")
    if not name:
        raise UsageError(f"--supply: {text!r} names no file", hint="windows:FILE, or windows:FILE#PARTITION")
    file = read_window_file(Path(name))
    known = file.partitions()
    if not partition and len(known) > 1:
        raise UsageError(
            f"--supply: {name} has the partitions {', '.join(known)}", hint=f"choose one: {PREFIX}{name}#{known[0]}"
        )
    chosen = partition or known[0]
    if chosen not in known:
        raise UsageError(f"--supply: {name} has no partition {chosen!r}", hint=f"it has {', '.join(known)}")
    windows = sorted((one.offset, one.duration) for one in file.windows if one.partition == chosen)
    return Supply("windows", (file.major_frame,), windows=tuple(windows), source=f"{chosen} in {name}")
