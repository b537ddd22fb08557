"""What a client of the database has seen: which commits a figure is of."""

from stealtime.hosts.database.client import Seen, together

KILLED_NS = 1_000
RUNS_AGAIN_NS = 2_000


def test_the_commit_that_a_failover_met_is_neither_before_nor_after_it() -> None:
    seen = Seen(commit_ns=[200, 100, 1_300, 10], acknowledged_at_ns=[800, 900, 2_200, 2_210])
    assert seen.commits_between(0, KILLED_NS) == [100, 200]
    assert seen.commits_between(RUNS_AGAIN_NS, 3_000) == [10]


def test_the_commits_of_several_clients_keep_their_moments() -> None:
    seen = together(
        [Seen(commit_ns=[5], acknowledged_at_ns=[10]), Seen(commit_ns=[7, 3], acknowledged_at_ns=[9, 2_500])]
    )
    assert seen.commits_between(0, KILLED_NS) == [5, 7]
    assert seen.commits_between(RUNS_AGAIN_NS, 3_000) == [3]
