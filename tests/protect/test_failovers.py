"""A campaign of failovers of one guest, with one client that counts through all of them."""

import os
import random
import sys
from collections.abc import Iterator

import pytest
from evidence import Witness
from failover_campaign import ALL_FAULTS, FAULTS, MOVING, POINTS, Campaign
from real_etcd import Etcd
from truth import repetitions, seed
from two_hosts import Counting, TwoHosts, assert_unharmed, laboratory_or_skip

from stealtime.hosts.counting import COUNTER

pytestmark = [
    pytest.mark.longer,
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

FAILOVERS = repetitions(few=6, full=40, variable="STEALTIME_FAILOVERS")
"""How many at random moments; with 100 or more, all fault points are passed too."""
SEED = seed()
"""Printed by every failure; give it to have the same campaign again."""

WRITES = os.environ.get("STEALTIME_CAMPAIGN_WRITES")
"""How much the guest writes beside, as `counter` takes it (``4000/10ms``); else little."""

REGISTER = os.environ.get("STEALTIME_CAMPAIGN_REGISTER", "folder")
"""Who decides: a register in a ``folder``, or a real ``etcd``."""

POINTS_IN_SHORT = 2
ALWAYS = ("after-stage, delay", "planned, the standby dies after-load", "planned, the active dies after-claim")
"""An epoch is whole and not yet committed when the standby wins: it waited for that for ever once. And a planned
failover during which either of the two dies: it was the machine's end once."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    with laboratory_or_skip() as laboratory:
        program = [*COUNTER[:-1], COUNTER[-1] if WRITES is None else f"dirty={WRITES}"]
        etcd = Etcd(laboratory) if REGISTER == "etcd" else None
        yield TwoHosts(laboratory, etcd, interval="50ms", program_arguments=program)


def test_what_a_client_saw_outlives_every_death(hosts: TwoHosts) -> None:
    chance = random.Random(SEED)  # noqa: S311 - it must be repeatable
    is_long = FAILOVERS >= 100
    kinds = ALL_FAULTS if is_long else FAULTS
    plan = [kinds[number % len(kinds)] for number in range(FAILOVERS)]
    plan += POINTS if is_long else [*ALWAYS, *chance.sample(POINTS, POINTS_IN_SHORT)]
    chance.shuffle(plan)
    sys.stdout.write(f"seed {SEED}: {', '.join(plan)}\n")
    with Witness(hosts) as witness:
        hosts.boot()
        counting = Counting(hosts)
        campaign = Campaign(hosts, chance)
        for what in plan:
            campaign.strike(what)
            witness.note_releases()
        seen = counting.end()
    outage = {protocol: nanoseconds / 1e6 for protocol, nanoseconds in seen["longest_outage_ns"].items()}
    sys.stdout.write(
        f"done {dict(campaign.done)}; the guest moved {campaign.moved} times; acknowledged {seen['acknowledged']}\n"
    )
    sys.stdout.write(
        f"longest outage {outage} ms; longest until protected again {campaign.longest_reprotection_s:.1f} s\n"
    )

    assert sum(campaign.done.values()) == len(plan)
    assert_unharmed(seen)
    # Whatever killed the active member moved the guest; a cut link may leave it where it is.
    assert campaign.moved >= sum(campaign.done[what] for what in (*FAULTS[:3], *MOVING))
    assert witness.assert_one_holder() == campaign.moved + 1
    assert witness.assert_no_late_release() > 0
    witness.assert_lives_end_before_the_next()
    witness.assert_one_voice()
