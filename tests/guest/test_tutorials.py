"""The tutorials that measure guests, as a reader follows them."""

from pathlib import Path

import pytest
from machines import needs_root
from truth import IN_FULL, some_of
from tutorials import Tutorial, follow

pytestmark = [pytest.mark.guest, pytest.mark.beside, pytest.mark.longer, needs_root]

SET_UP = {"make setup": "true"}
"""Whoever runs tests has done so."""
GATE = Tutorial(
    "tutorial-gate.md",
    SET_UP | {"-D 10s": "-D 1s", "-P paravirt": "-P uml"},
    own=(
        "qemu-tcg-paravirt ",
        "  the longest seen",
        "timer tick",
        "thread ",
        "10 smaller causes",
        "  limits  real-time throttling",
    ),
)
CAPACITY = Tutorial(
    "tutorial-capacity.md",
    # A verdict needs ten samples, one a second; both guests are up after some seconds.
    SET_UP | {"sleep 30": "sleep 10", "--for 1m": "--for 11s"},
    # What the lost seconds went to is a matter of the machine, and so are the columns of their table. Whether guests
    # are misplaced or the host is over-committed depends on what else runs there.
    own=(
        *("platform, scenario", "uml half", "uml overcommitted", "guest stealtime-tcg-paravirt", "stealtime-"),
        *("...: over-committed host", "host: over-committed host", "  by the rule vcpu-wait"),
        *("  a virtual CPU that", "  0.49 and waits"),
    ),
)


@pytest.mark.parametrize("tutorial", some_of([GATE, CAPACITY], GATE), ids=lambda tutorial: tutorial.page)
def test_a_tutorial_does_as_it_says(tutorial: Tutorial, tmp_path: Path) -> None:
    follow(tutorial, tmp_path, in_full=IN_FULL, timeout_s=600)
