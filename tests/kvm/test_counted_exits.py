"""KVM's own count of exits beside that of the host's trace."""

from collections.abc import Callable

import pytest
from counted_exits import exits_of

from stealtime.store.run import Trial
from stealtime.vocabulary.readings import Value

pytestmark = [pytest.mark.kvm, pytest.mark.truth]


@pytest.mark.parametrize("campaign", ["hog", "quota", "plain", "exits"])
def test_kvm_counts_the_exits_that_the_trace_shows(
    trial_of: Callable[[str], Trial], campaign: str, tell: Callable[[str], None]
) -> None:
    exits = exits_of(trial_of(campaign))
    tell(f"KVM, {campaign}: {exits}")
    assert exits.agree, exits


def test_the_hosts_kernel_tells_how_long_the_guests_instructions_ran(
    trial_of: Callable[[str], Trial], tell: Callable[[str], None]
) -> None:
    views = trial_of("plain").record.host_views
    assert views is not None
    assert isinstance(views.guest_ns, Value), views
    assert isinstance(views.run_ns, Value), views
    guest_ns, run_ns = int(str(views.guest_ns.value)), int(str(views.run_ns.value))
    tell(f"KVM, plain: {guest_ns / 1e9:.2f} s in the guest of {run_ns / 1e9:.2f} s on a CPU")
    # It is counted by the tick, which finds a thread in the guest about as often as it is there.
    assert 0 < guest_ns < 1.2 * run_ns
