"""Commands as a user without any rights, also where Python or this tree lie in a folder that is closed to others."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NOBODY = 65534
ROOT = Path(__file__).parents[2]

# In a mount namespace of its own the closed folder is replaced by an empty one, in which the places stand open again.
_OPEN = """
set -eu
closed=$1 keep=$2; shift 2
mount --bind "$closed" "$keep"
mount -t tmpfs -o mode=755 ordinary-user "$closed"
while [ "$1" != -- ]; do
    mkdir -p "$closed/$1"
    mount --bind "$keep/$1" "$closed/$1"
    shift
done
shift
umount "$keep"
exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"
"""


class OrdinaryUser:
    """Runs commands as nobody, with a home of their own.

    Args:
        folder: Where the home is made; it and pytest's folders above it are opened to others.
    """

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self._keep = folder / "keep"
        self._keep.mkdir()
        for opened in (folder, *folder.parents):
            if opened.stat().st_uid == os.geteuid() and opened.name.startswith(("pytest-", "test_")):
                opened.chmod(0o755)
        os.chown(self.home, NOBODY, NOBODY)

    def run(self, *command: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "STEALTIME_"))}
        return subprocess.run(
            [*self._prefix(), *command],
            env={**kept, "HOME": str(self.home), "TMPDIR": str(self.home), "PYTHONPATH": str(ROOT / "src")},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def _prefix(self) -> list[str]:
        needed = sorted({Path(place).resolve() for place in (sys.base_prefix, sys.prefix, ROOT)})
        closed = {top for place in needed if (top := _closed_above(place)) is not None}
        assert len(closed) <= 1, f"more than one closed folder: {closed}"
        if not closed:
            plain = f"--reuid={NOBODY} --regid={NOBODY} --clear-groups --inh-caps=-all --bounding-set=-all"
            return ["setpriv", *plain.split()]
        (top,) = closed
        inside = [str(place.relative_to(top)) for place in needed if place.is_relative_to(top)]
        unshare = shutil.which("unshare")
        assert unshare is not None, "unshare is not installed: apt-get install util-linux"
        script = ["sh", "-c", _OPEN, "sh", str(top), str(self._keep), *inside, "--"]
        return [unshare, "--mount", "--propagation", "private", *script]


def _closed_above(place: Path) -> Path | None:
    """Give the highest folder on the way to a place that others may not enter."""
    return next((folder for folder in reversed([place, *place.parents]) if not folder.stat().st_mode & 0o001), None)
