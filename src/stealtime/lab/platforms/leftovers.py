"""What an earlier control plane may have left: processes, CPU groups and temporary folders that carry its mark.

The guard ends guests with their control plane; this is the second line, for a guard that was itself killed before it
could act, and for temporary folders and CPU groups, which nobody removes when a process is killed with -9.
"""

import functools
import logging
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from stealtime._core import owner_fate
from stealtime.lab.platforms.cgroup import clear_groups
from stealtime.lab.platforms.process import RUN_MARK, run_mark

_FOLDER_PREFIX = "stealtime-"
_MARK = re.compile(r"\d+:\d+:\d+")
logger = logging.getLogger(__name__)


def make_short_folder() -> Path:
    """Make a temporary folder with a short path (a Unix socket's path has at most 107 bytes) that carries our mark."""
    return Path(tempfile.mkdtemp(prefix=_marked_prefix()))


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Have such a folder; it goes with the context, or at the next start where this process is killed in it."""
    with tempfile.TemporaryDirectory(prefix=_marked_prefix()) as name:
        yield Path(name)


def _marked_prefix() -> str:
    return f"{_FOLDER_PREFIX}{run_mark()}-"


@functools.cache
def clear_leftovers() -> tuple[str, ...]:
    """End and remove what control planes that are gone have left; once in the life of this process.

    Returns:
        What was cleared, for the log.
    """
    return tuple(_clear_processes() + clear_groups(is_left_over) + _clear_folders())


def _clear_processes() -> list[str]:
    cleared = []
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(RUN_MARK)
            if mark is not None and is_left_over(mark):
                name = process.name()
                process.kill()
                cleared.append(f"process {process.pid} ({name}) of the run {mark}")
        except (psutil.Error, OSError):
            continue  # it ended meanwhile, or is not ours to look at
    return cleared


def _clear_folders() -> list[str]:
    cleared = []
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*:*-*"):
        mark = folder.name.removeprefix(_FOLDER_PREFIX).rpartition("-")[0]
        if is_left_over(mark):
            shutil.rmtree(folder, ignore_errors=True)
            cleared.append(f"folder {folder}")
    return cleared


def is_left_over(mark: str) -> bool:
    """Tell whether what carries a mark may go: its control plane has ended, as far as that can be seen from here.

    Where it cannot be seen nothing goes, and that is said.
    """
    fate = owner_fate(mark)
    if fate == "not ours to judge" and _MARK.fullmatch(mark):
        _tell_left_alone(mark)
    return fate == "gone"


@functools.cache
def _tell_left_alone(mark: str) -> None:
    logger.warning(
        "what the run %s has made here is left alone: from this PID or time namespace nobody can tell whether it lives",
        mark,
    )
