"""The tutorial in which hosts die, as a reader follows it."""

import os
from pathlib import Path

import pytest
from tutorials import Tutorial, follow

pytestmark = [
    pytest.mark.protect,
    pytest.mark.alone,
    pytest.mark.truth,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


def test_the_tutorial_does_as_it_says(tmp_path: Path) -> None:
    # Whoever runs tests has set up.
    follow(Tutorial("tutorial-telephony.md", {"make setup": "true"}), tmp_path, in_full=True, timeout_s=900)
