"""Programs of Debian that a test fetches and never installs; without a network it is skipped, and says so."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stealtime.lab.image.debian_programs import unpack_packages
from stealtime.vocabulary.errors import StealtimeError


def unpack_fetched(packages: Mapping[str, Any], unpacked: Path, what: str) -> None:
    """Fetch packages into a folder that is not there yet.

    Raises:
        StealtimeError: They cannot be had, although a mirror is reached.
    """
    try:
        unpack_packages(dict(packages), unpacked, what)
    except StealtimeError as error:
        if "Temporary failure resolving" in error.message:
            pytest.skip(f"no mirror of Debian is reached: {what} cannot be fetched")
        raise
