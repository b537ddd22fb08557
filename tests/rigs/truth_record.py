"""Which rings' truths are due: the slow tests that judge instruments, marked ``truth`` or ``longer``.

``make truth`` runs them, and notes of each ring that passed the git tree ids of what its tests judge
(``tests/truth.toml``) in ``tests/truth_record.json``. While these ids stay the same its truths need not be asked again:
a fresh clone knows nothing else of what changed.

``python tests/rigs/truth_record.py rings|due|changed|minutes RING|note RING MINUTES [AGAIN...]`` prints the rings,
those that are due, what changed of these, and how long a ring took when it passed; ``note`` writes down that it has
passed, how long it took, and which of its tests passed only when they ran again.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent.parent.parent
_JUDGED = Path("tests/truth.toml")
_RECORD = Path("tests/truth_record.json")

Trees = dict[str, str | None]
"""Git's id of each path; None where it is not in the commit."""


class UncommittedChangeError(Exception):
    """What passed is in no commit: nobody could find it again."""


def judged_paths(root: Path = _ROOT) -> dict[str, list[str]]:
    """Read which paths the truths of each ring judge."""
    document = tomllib.loads((root / _JUDGED).read_text("utf-8"))
    return {ring: entry["paths"] for ring, entry in document.items()}


def trees_now(paths: list[str], root: Path = _ROOT) -> Trees:
    """Ask git for the ids of the paths in the commit that is checked out."""
    return {path: _git(root, "rev-parse", "--verify", "--quiet", f"HEAD:{path}") or None for path in paths}


def changed_paths(ring: str, root: Path = _ROOT) -> list[str]:
    """Give the paths that differ from those of the ring's last success, all of them where it has none."""
    passed = _record(root).get(ring, {}).get("trees", {})
    now = trees_now(judged_paths(root)[ring], root)
    return [path for path, tree in now.items() if tree is None or passed.get(path) != tree]


def minutes(ring: str, root: Path = _ROOT) -> int:
    """Give how many minutes the ring's truths took when they last passed, 0 where that is not known."""
    return int(_record(root).get(ring, {}).get("minutes", 0))


def note(ring: str, took_minutes: int, again: Sequence[str] = (), root: Path = _ROOT) -> None:
    """Write down that the ring's truths have passed on what is checked out, some only when they ran again.

    Raises:
        UncommittedChangeError: A judged path was changed and not committed.
    """
    paths = judged_paths(root)[ring]
    if status := _git(root, "status", "--porcelain", "--", *paths):
        raise UncommittedChangeError(status)
    record = _record(root)
    record[ring] = {
        "minutes": took_minutes,
        "passed": f"{datetime.now(UTC):%Y-%m-%d}",
        "passed_again": sorted(again),
        "trees": trees_now(paths, root),
    }
    (root / _RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", "utf-8")


def _record(root: Path) -> dict[str, Any]:
    path = root / _RECORD
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    match sys.argv[1:]:
        case ["rings"]:
            lines = list(judged_paths())
        case ["due"]:
            lines = [ring for ring in judged_paths() if changed_paths(ring)]
        case ["changed"]:
            lines = [f"{ring}: {', '.join(paths)}" for ring in judged_paths() if (paths := changed_paths(ring))]
        case ["minutes", ring]:
            lines = [str(minutes(ring))]
        case ["note", ring, took_minutes, *again]:
            try:
                note(ring, int(took_minutes), again)
            except UncommittedChangeError as error:
                sys.exit(f"error: not noted that {ring} has passed, since not all of it is committed:\n{error}")
            return
        case _:
            sys.exit(__doc__)
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main()
