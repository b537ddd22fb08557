"""Commands as a user without any rights, also where Python or this tree lie in a folder that is closed to others."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from stealtime.lab.image.cache import cache_folder

NOBODY = 65534
ROOT = Path(__file__).parents[2]

_PLAIN = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --inh-caps=-all --bounding-set=-all"


def open_to_others(folder: Path) -> None:
    """Let others into a folder of a test: pytest's own above it are closed, those of each of its workers too."""
    for opened in (folder, *folder.parents):
        if opened.stat().st_uid == os.geteuid() and opened.name.startswith(("pytest-", "popen-", "test_")):
            opened.chmod(0o755)


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
        open_to_others(folder)
        os.chown(self.home, NOBODY, NOBODY)

    def take_kernels(self) -> None:
        """Have the guest kernels that root has fetched: where no mirror is reached, this user cannot fetch any."""
        kernels = cache_folder() / "kernels"
        target = self.home / ".cache" / "stealtime" / "kernels"
        shutil.copytree(kernels, target, dirs_exist_ok=True, symlinks=True)
        for folder, _, files in os.walk(self.home / ".cache"):
            for place in (Path(folder), *(Path(folder) / name for name in files)):
                os.chown(place, NOBODY, NOBODY, follow_symlinks=False)

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
        closed = sorted({top for place in needed if (top := _closed_above(place)) is not None})
        if not closed:
            return shlex.split(_PLAIN)
        unshare = shutil.which("unshare")
        assert unshare is not None, "unshare is not installed: apt-get install util-linux"
        opening = [line for top in closed for line in self._opened(top, needed)]
        script = "\n".join(["set -eu", *opening, f'exec {_PLAIN} "$@"'])
        return [unshare, "--mount", "--propagation", "private", "sh", "-c", script, "sh"]

    def _opened(self, closed: Path, needed: Sequence[Path]) -> Iterator[str]:
        """Replace a closed folder by an empty one in which the places that are needed stand open again."""
        top, keep = shlex.quote(str(closed)), shlex.quote(str(self._keep))
        yield f"mount --bind {top} {keep}"
        yield f"mount -t tmpfs -o mode=755 ordinary-user {top}"
        for place in needed:
            if place.is_relative_to(closed):
                inside = shlex.quote(str(place.relative_to(closed)))
                yield f"mkdir -p {top}/{inside} && mount --bind {keep}/{inside} {top}/{inside}"
        yield f"umount {keep}"


def _closed_above(place: Path) -> Path | None:
    """Give the highest folder on the way to a place that others may not enter."""
    return next((folder for folder in reversed([place, *place.parents]) if not folder.stat().st_mode & 0o001), None)
