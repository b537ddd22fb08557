"""Which format a file is in, and its tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from stealtime.schedulability.document import Policy
from stealtime.schedulability.formats import cheddar, lime, rt_app, schedcat, sheet, simso
from stealtime.schedulability.formats.draft import HINT, Draft, FormatName
from stealtime.schedulability.formats.xml_input import root_tag
from stealtime.schedulability.task_file import TaskFile, read_task_file
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.own_text import read_own_text

FORMATS: tuple[FormatName, ...] = get_args(FormatName)
_WITH_UNIT = ("sheet", "schedcat", "cheddar")


@dataclass(frozen=True)
class ReadTasks:
    """A task set of any format."""

    file: TaskFile
    format: FormatName
    policy: Policy | None = None
    """What the file itself names; None where it leaves that open."""
    remarks: tuple[str, ...] = ()
    """What it says that tasks cannot express, and how it was taken, a sentence each."""


def read_tasks(path: Path, format_name: str | None = None, unit: str | None = None, apart: bool = False) -> ReadTasks:
    """Read tasks of the format that is named, or that the content shows.

    Args:
        path: A file; for LiME also the folder that it wrote.
        format_name: One of :data:`FORMATS`.
        unit: Of numbers without one, such as ``ms``.
        apart: Whether the CPUs of the file do not count, as the tasks are to be placed.

    Raises:
        UsageError: There is no such format or file, it is in another format, or tasks cannot be so.
    """
    if format_name is not None and format_name not in FORMATS:
        raise UsageError(f"--format: {format_name!r} is none", hint=f"known: {', '.join(FORMATS)}")
    if path.is_dir():
        return _read_folder(path, format_name, unit, apart)
    text = read_own_text(path, "task file")
    chosen: FormatName = next((one for one in FORMATS if one == format_name), _found(path, text))
    if unit is not None and chosen not in _WITH_UNIT:
        raise UsageError(
            f"--unit: {path} is {chosen}, whose times have units", hint="leave it out, or name another --format"
        )
    if chosen == "toml":
        return ReadTasks(read_task_file(path, apart), "toml")
    draft = Draft(path)
    readers: dict[FormatName, Callable[[], None]] = {
        "sheet": lambda: sheet.read_sheet(draft, text, unit),
        "lime": lambda: lime.read_lime_file(draft, text),
        "rt-app": lambda: rt_app.read_rt_app(draft, text),
        "schedcat": lambda: schedcat.read_schedcat(draft, text, unit),
        "cheddar": lambda: cheddar.read_cheddar(draft, text, unit),
        "simso": lambda: simso.read_simso(draft, text),
    }
    readers[chosen]()
    return _made(draft, chosen, apart)


def _made(draft: Draft, chosen: FormatName, apart: bool) -> ReadTasks:
    file = draft.finish(apart)
    return ReadTasks(file, chosen, draft.policy, tuple(draft.remarks))


def _read_folder(path: Path, format_name: str | None, unit: str | None, apart: bool) -> ReadTasks:
    if format_name not in (None, "lime"):
        raise UsageError(f"{path} is a folder, and {format_name} is a file", hint="name the file")
    if unit is not None:
        raise UsageError(f"--unit: LiME's times in {path} are nanoseconds", hint="leave it out")
    draft = Draft(path)
    lime.read_lime_folder(draft, path)
    return _made(draft, "lime", apart)


def _found(path: Path, text: str) -> FormatName:
    start = text.lstrip()
    if start.startswith("<"):
        tag = root_tag(start)
        if tag == cheddar.ROOT:
            return "cheddar"
        if tag == simso.ROOT:
            return "simso"
        if tag in schedcat.ROOTS:
            return "schedcat"
        raise UsageError(f"{path}: its root is <{tag[:40]}>, which is of no format that is read", hint=HINT)
    if start.startswith(("{", "//", "/*")):
        return "lime" if lime.is_lime(text) else "rt-app"
    if sheet.looks_like_sheet(text) or path.suffix.lower() in (".csv", ".tsv"):
        return "sheet"
    return "toml"
