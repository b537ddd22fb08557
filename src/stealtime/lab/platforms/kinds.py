"""What follows from a platform's name, for those who have only that: a plan, a record on disk."""

NATIVE = "native"
_REMOTE_PREFIX = "ssh:"


def is_remote(platform: str) -> bool:
    """Tell whether the machines of a platform run on another host than this one."""
    return platform.startswith(_REMOTE_PREFIX)


def is_guest(platform: str) -> bool:
    """Tell whether the machines of a platform are virtual machines that we boot, and so ours."""
    return platform != NATIVE and not is_remote(platform)


def traces_itself(platform: str) -> bool:
    """Tell whether the machines of a platform have a kernel of their own that can be traced by their agent.

    Natively the host's trace is the machine's. Debian's User-Mode Linux has no tracing; the host sees into it.
    """
    return platform.startswith(("qemu-", _REMOTE_PREFIX))
