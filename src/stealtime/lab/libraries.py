"""The shared libraries of this package that are preloaded into other programs.

setuptools-rust gives a library without a Python binding the name of an extension module; nobody imports it.
"""

from pathlib import Path

from stealtime.vocabulary.errors import REINSTALL_HINT, StealtimeError


def find_library(folder: Path, name: str) -> Path:
    """Give the path of a library.

    Args:
        folder: The room that it belongs to.
        name: Without prefix and suffix: ``stealtime_pagetrack``.

    Raises:
        StealtimeError: It is not there.
    """
    found = sorted(folder.glob(f"lib{name}*.so"))
    if not found:
        raise StealtimeError(f"no lib{name}*.so is in {folder}", hint=REINSTALL_HINT)
    return found[0]
