"""Hosts beside their peers: those that are worse are named, and nobody else."""

import numpy as np
import pytest
from simulated_fleet import SimulatedHost, values_of

from stealtime.site.peers import judge_hosts

SLOW = SimulatedHost("slow", slower=(110, 100))
STALLING = SimulatedHost("stalling", stall_ns=5_000_000, stalls_a_trial=2)
OTHER = SimulatedHost("other", slower=(108, 100), microcode="0x200")


def _fleet(count: int) -> list[SimulatedHost]:
    return [SimulatedHost(f"host{number:03}") for number in range(count)]


def test_the_slow_and_the_stalling_one_of_a_hundred_are_named_and_no_other() -> None:
    values = list(values_of([*_fleet(97), SLOW, STALLING, OTHER], 4, np.random.default_rng(7)))
    judged = judge_hosts(values)
    assert sorted(judged.named_hosts) == ["slow", "stalling"]
    assert {one.figure for one in judged.named if one.host == "slow"} >= {"floor", "p50"}
    assert {one.figure for one in judged.named if one.host == "stalling"} == {"stalls of 4 ms or more"}
    assert [one.host for one in judged.unjudged] == ["other"]


@pytest.mark.parametrize("seed", range(6))
def test_among_hosts_that_are_alike_nobody_is_named(seed: int) -> None:
    assert judge_hosts(values_of(_fleet(30), 4, np.random.default_rng(seed))).named == []


def test_too_few_peers_are_no_verdict() -> None:
    judged = judge_hosts(values_of([*_fleet(5), SLOW], 4, np.random.default_rng(1)))
    assert judged.findings == []
    assert {one.host for one in judged.unjudged} == {*(f"host{number:03}" for number in range(5)), "slow"}
