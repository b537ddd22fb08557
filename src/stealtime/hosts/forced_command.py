"""``stealtime protect serve`` as the one command of a key (``command=`` in ``authorized_keys``).

sshd starts it whatever was asked for, and says that in ``SSH_ORIGINAL_COMMAND``. Two things are asked for on the way to
a lent host: to be served, and to take a file for the machines of the campaign. Everything else is refused, so that who
has the key can lend the host and do nothing else there.
"""

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from stealtime.hosts.lent_machines import FOLDER_PREFIX, OWNER_FILE
from stealtime.vocabulary.errors import StealtimeError, UsageError

ORIGINAL = "SSH_ORIGINAL_COMMAND"

_SERVE = re.compile(r"printf 'stealtime-%s-([0-9a-f]{16})\\n' begin; exec \S+ protect serve")
"""As ``MarkedShell.opening`` has it run; the program is the one that runs already."""
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True)
class Serving:
    """To be served, after a line that the other side waits for."""

    beginning: str


@dataclass(frozen=True)
class Taking:
    """To take a file from standard input."""

    target: Path


def read_request(original: str) -> Serving | Taking:
    """Tell what was asked for.

    Raises:
        UsageError: Something else.
    """
    try:
        words = shlex.split(original)
    except ValueError:
        words = []
    match words:
        case ["sh", "-c", script] if found := _SERVE.fullmatch(script):
            return Serving(f"stealtime-begin-{found[1]}\n")
        case ["cat", ">", target]:
            return Taking(Path(target))
    raise UsageError(
        f"this key is for `stealtime protect serve`, not for {original[:80]!r}",
        hint="use another key, or take command= out of authorized_keys",
    )


def take_file(target: Path, source: IO[bytes], images: Sequence[Path]) -> None:
    """Write a file for the machines of a campaign.

    Args:
        target: In a folder of the campaign, which was made for it.
        source: What it holds.
        images: Folders that machines may boot from here.

    Raises:
        StealtimeError: The path leads elsewhere, or cannot be written.
    """
    folder = target.parent
    is_lent = folder.parent in images and folder.name.startswith(FOLDER_PREFIX) and not folder.is_symlink()
    is_file_name = _FILE_NAME.fullmatch(target.name) is not None and target.name != OWNER_FILE
    if not is_lent or not is_file_name:
        raise StealtimeError(f"{target} is in no folder that was lent", hint="the campaign begins with `lend`")
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            shutil.copyfileobj(source, file)
    except OSError as error:
        raise StealtimeError(f"{target} cannot be written: {error.strerror}") from error
