"""The user of this host that QEMU runs as, where it is not to have one of its own."""

import os
import pwd
from typing import Annotated

from pydantic import AfterValidator


def _existing(name: str) -> str:
    try:
        pwd.getpwnam(name)
    except KeyError:
        raise ValueError(f"this host has no user {name!r}") from None
    return name


QemuUserName = Annotated[str, AfterValidator(_existing)]
"""A user of this host; without one each QEMU has a user of its own, who may do nothing."""


def find_user(name: str) -> tuple[int, int, list[int]]:
    """Give a user's number, that of its group, and those of its other groups.

    Raises:
        KeyError: There is none of this name.
    """
    found = pwd.getpwnam(name)
    others = set(os.getgrouplist(name, found.pw_gid)) - {found.pw_gid}
    return found.pw_uid, found.pw_gid, sorted(others)
