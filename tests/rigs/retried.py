"""Tests whose figures a host of its own may spoil: measured once more before they fail, and told."""

import functools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

Test = Callable[..., Coroutine[Any, Any, None]]


def retried_once(test: Test) -> Test:
    """Measure once more, in a folder of its own, if the first time breaks the test's rule.

    Args:
        test: Takes ``tmp_path`` and ``tell``.
    """

    @functools.wraps(test)
    async def tried(*, tmp_path: Path, tell: Callable[[str], None], **others: Any) -> None:
        (tmp_path / "first").mkdir()
        try:
            await test(tmp_path=tmp_path / "first", tell=tell, **others)
        except AssertionError as broken:
            tell(f"{test.__name__}, measured again: {str(broken).splitlines()[0][:300]}")
            (tmp_path / "second").mkdir()
            await test(tmp_path=tmp_path / "second", tell=tell, **others)

    return tried
