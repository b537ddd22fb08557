"""KVM's own count of exits beside that of the host's trace."""

from collections.abc import Callable

import pytest
from counted_exits import exits_of

from stealtime.store.run import Trial

pytestmark = pytest.mark.kvm


@pytest.mark.parametrize("campaign", ["hog", "quota", "plain", "exits"])
def test_kvm_counts_the_exits_that_the_trace_shows(
    trial_of: Callable[[str], Trial], campaign: str, tell: Callable[[str], None]
) -> None:
    exits = exits_of(trial_of(campaign))
    tell(f"KVM, {campaign}: {exits}")
    assert exits.agree, exits
