"""Servers whose checkpoints are made when an answer waits."""

import pytest
from telephony_cells import GUEST

from stealtime.campaigns.file import read_campaign
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import plan
from stealtime.store.model import PlatformRecord
from stealtime.studies.telephony.parameters import ServerParameters
from stealtime.studies.telephony.place.guest import CheckpointIntervals
from stealtime.vocabulary.errors import UsageError

MS = 1_000_000
TABLE = 'name = "x"\nscenarios = ["telephony"]\n[[probes]]\nprobe = "call"\nduration = "1s"\n'


def servers(lines: str) -> set[tuple[str, int | None, int | None]]:
    """Give mode, interval and least interval of each server of a campaign of ``call`` with some more lines."""
    records = [PlatformRecord(name=GUEST, usable=True, reason="")]
    boots = plan(read_campaign(TABLE + lines, "f"), records, HostCpus((0, 1))).boots
    told = [ServerParameters.of(cell.cell) for boot in boots for cell in boot.cells]
    return {(one.mode, one.interval_ns, one.min_interval_ns) for one in told}


def test_only_where_output_waits_can_a_checkpoint_be_asked_for() -> None:
    assert servers('mode = ["off", "no-net", "net"]\nmin_interval = ["due", "5ms"]\n') == {
        ("off", None, None),
        ("no-net", 100 * MS, None),
        ("net", 100 * MS, None),
        ("net", 100 * MS, 5 * MS),
    }
    assert servers('mode = ["net+bypass"]\nmin_interval = ["5ms"]\n') == {("net+bypass", 100 * MS, 5 * MS)}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('mode = ["no-net"]\nmin_interval = ["5ms"]\n', "no output waits in the mode no-net"),
        ('mode = ["net"]\ninterval = ["25ms"]\nmin_interval = ["50ms"]\n', "50ms, which is longer than .* 25ms"),
        ('mode = ["net"]\nmin_interval = ["1ms"]\n', "min_interval"),
        ('mode = ["net"]\nmin_interval = []\n', "min_interval"),
    ],
)
def test_what_cannot_be_is_refused(lines: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_campaign(TABLE + lines, "f")


def test_a_guest_is_told_of_them_where_its_output_waits() -> None:
    on_demand = CheckpointIntervals(100 * MS, 5 * MS)
    assert on_demand.described("net") == {"interval": "100000000ns", "min_interval": "5000000ns"}
    # Media of `net+no-net` has a guest of its own.
    assert on_demand.described("no-net") == {"interval": "100000000ns"}
    assert CheckpointIntervals().described("net") == {}
