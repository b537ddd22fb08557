"""The study `stretch` where KVM is real: its guest's exits are counted, and their time is in the lost seconds."""

from collections.abc import Callable

import pytest
from campaigns import CONTEND

from stealtime.report.summarizing import summarize
from stealtime.store.run import Run
from stealtime.studies.stretch.analysis.model import StretchCell

pytestmark = [pytest.mark.kvm, pytest.mark.truth]


@pytest.fixture(scope="module")
def cells(runs: dict[str, Run]) -> dict[str, StretchCell]:
    found = [one for one in summarize(runs["stretch"]).cells if isinstance(one, StretchCell)]
    assert [one.platform for one in found] == ["native", "qemu-kvm-paravirt"]
    return {one.platform: one for one in found}


def test_the_guest_does_the_same_work(cells: dict[str, StretchCell]) -> None:
    (native,), (guest,) = (one.repetitions for one in cells.values())
    assert guest.checksum == native.checksum
    assert guest.io_asked_s == pytest.approx(native.io_asked_s)


def test_what_leaving_the_guest_took_is_a_part_of_the_lost_seconds(
    cells: dict[str, StretchCell], tell: Callable[[str], None]
) -> None:
    guest = cells["qemu-kvm-paravirt"]
    (repetition,), lost = guest.repetitions, guest.lost
    assert lost is not None
    tell(f"KVM, stretch: {repetition.exits} exits, {repetition.outside_guest_s} s outside of the guest; {lost}")
    # It halts once for each of its sleeps.
    assert repetition.exits is not None
    assert repetition.exits >= int(str(CONTEND["iterations"])), repetition
    assert repetition.outside_guest_s is not None
    assert repetition.host_run_s is not None
    # The kernel counts the guest's time by ticks, so of a second it may give all to the guest.
    assert 0 <= repetition.outside_guest_s < repetition.host_run_s
    assert 0 <= lost.parts_s["exits"] <= repetition.outside_guest_s
    assert sum(lost.parts_s.values()) + lost.unexplained_s == pytest.approx(lost.elapsed_s - lost.base_elapsed_s)
    # Natively nothing leaves a guest.
    (native,) = cells["native"].repetitions
    assert (native.exits, native.outside_guest_s) == (None, None)
