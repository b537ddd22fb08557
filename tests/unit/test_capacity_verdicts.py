"""Verdicts on made-up figures: each of the four, every edge of every rule, and when nothing may be said."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from synthetic_use import RULE, guest, use
from truth import repetitions, wrong_at_most

from stealtime.capacity.advice import advise
from stealtime.capacity.figures import Series
from stealtime.capacity.judgement import Judgement, judge, unjudged
from stealtime.capacity.rules import load_rules, read_rules
from stealtime.capacity.threads_use import ThreadsUse
from stealtime.capacity.use import GuestUse, Use, ViewUse
from stealtime.vocabulary.readings import Absent

RULES = load_rules()
WITHHELD = Absent(absent="withheld")
OVER_COMMITTED, FITTING = "over-committed host", "efficiently provisioned"
N = 20


def verdicts(*uses: Use) -> tuple[Judgement, dict[str, Judgement]]:
    seen = list(uses) if len(uses) > 1 else list(uses) * N
    host, guests = judge(seen, RULES)
    return host, {one.subject: one for one in guests}


def of_guest(one: GuestUse) -> Judgement:
    return verdicts(use([one], busy=(95.0, 95.0)))[1][one.guest.name]


def test_idle_cpus_and_free_memory_are_an_over_provisioned_host() -> None:
    host, guests = verdicts(use([guest(run=[15.0])]))
    assert (host.verdict, guests["a"].verdict) == ("over-provisioned host", "efficiently provisioned")


def test_a_busy_host_whose_guests_do_not_wait_is_efficiently_provisioned() -> None:
    host, guests = verdicts(use([guest(run=[70.0], wait=[2.0])], busy=(75.0, 60.0)))
    assert (host.verdict, guests["a"].verdict) == ("efficiently provisioned", "efficiently provisioned")


def test_guests_that_wait_for_cpus_are_an_over_committed_host() -> None:
    pair = [guest("a", run=[50.0], wait=[50.0], cpus=[0]), guest("b", run=[50.0], wait=[50.0], cpus=[0])]
    host, guests = verdicts(use(pair, busy=(100.0, 3.0)))
    assert host.verdict == guests["a"].verdict == guests["b"].verdict == "misplaced guests"
    host, guests = verdicts(use(pair, busy=(100.0, 70.0)))
    assert host.verdict == guests["a"].verdict == guests["b"].verdict == "over-committed host"
    assert host.outcome is not None
    assert host.outcome.of_guest == "a"


def test_busy_virtual_cpus_with_a_queue_are_an_under_provisioned_guest() -> None:
    judged = of_guest(guest(run=[97.0, 97.0], wait=[0.1, 0.1], queue=9.0))
    assert judged.verdict == "under-provisioned guest"


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        # Above 25 % of what it wants, which is above 5 % of the time, and above 60 us a dispatch: all of them.
        (guest(run=[30.0], wait=[10.0]), "efficiently provisioned"),
        (guest(run=[30.0], wait=[10.1]), "over-committed host"),
        (guest(run=[2.0], wait=[3.0]), "efficiently provisioned"),
        (guest(run=[2.0], wait=[3.1]), "over-committed host"),
        # One of six guests that work for 90 ms of each second: 4.5 % and 5 % of the time.
        (guest(run=[4.5], wait=[5.0]), "over-committed host"),
        (guest(run=[50.0], wait=[30.0], wait_per_dispatch_ns=60_000.0), "efficiently provisioned"),
        (guest(run=[50.0], wait=[30.0], wait_per_dispatch_ns=60_001.0), "over-committed host"),
        # One virtual CPU is enough, but both figures must be of the same one.
        (guest(run=[5.0, 50.0], wait=[0.0, 40.0]), "over-committed host"),
        # Above 90 % on every virtual CPU, and more than three waiting for each.
        (guest(run=[99.0], wait=[0.0], queue=3.0), "efficiently provisioned"),
        (guest(run=[99.0], wait=[0.0], queue=3.01), "under-provisioned guest"),
        (guest(run=[99.0, 90.0], wait=[0.0, 0.0], queue=20.0), "efficiently provisioned"),
        (guest(run=[99.0, 90.1], wait=[0.0, 0.0], queue=20.0), "under-provisioned guest"),
        (guest(run=[99.0, 99.0], wait=[0.0, 0.0], queue=6.0), "efficiently provisioned"),
        # The processes of User-Mode Linux hand their CPU to each other: not how long, but how much of what it wants.
        (guest(run=[50.0], wait=[50.0], wait_per_dispatch_ns=17e3, others_run=50.0), "over-committed host"),
        (guest(run=[67.0], wait=[33.0], wait_per_dispatch_ns=17e3, others_run=70.0), "efficiently provisioned"),
        (guest(run=[66.9], wait=[33.1], wait_per_dispatch_ns=17e3, others_run=70.0), "over-committed host"),
        (guest(run=[5.0], wait=[5.0], wait_per_dispatch_ns=17e3, others_run=70.0), "efficiently provisioned"),
        (guest(run=[5.0], wait=[5.1], wait_per_dispatch_ns=17e3, others_run=70.0), "over-committed host"),
        # Where nobody else uses its CPUs it waits for nobody else.
        (guest(run=[40.0], wait=[30.0], wait_per_dispatch_ns=5e3, others_run=19.7), "efficiently provisioned"),
        (guest(run=[40.0], wait=[30.0], wait_per_dispatch_ns=5e3, others_run=19.8), "over-committed host"),
        # What its quota took is no wait for others.
        (guest(run=[50.0], wait=[50.0], wait_per_dispatch_ns=17e3, others_run=50.0, throttled=9.0), OVER_COMMITTED),
        (guest(run=[50.0], wait=[25.0], wait_per_dispatch_ns=17e3, others_run=50.0, throttled=9.0), FITTING),
        # A quota that holds back is named, and what it takes is no wait for the host.
        (guest(run=[50.0], wait=[50.0], throttled=10.0, quota_cpus=0.5), "over-committed host"),
        (guest(run=[50.0], wait=[50.0], throttled=50.0, quota_cpus=0.5), "under-provisioned guest"),
        (guest(run=[50.0], wait=[25.0], throttled=9.0, quota_cpus=0.5), "efficiently provisioned"),
    ],
)
def test_the_edges_of_rules_about_guests(one: GuestUse, verdict: str) -> None:
    assert of_guest(one).verdict == verdict


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (use([guest()], busy=(39.9, 39.9)), "over-provisioned host"),
        (use([guest()], busy=(39.9, 40.0)), "efficiently provisioned"),
        (use([guest()], memory=40.0), "efficiently provisioned"),
        (use([guest()], memory=40.1), "over-provisioned host"),
        (use([guest()], memory_pressure=10.0), "over-provisioned host"),
        (use([guest()], memory_pressure=10.1), "over-committed host"),
        (use([guest()], steal=10.0), "over-provisioned host"),
        (use([guest()], steal=10.1), "not judged"),
    ],
)
def test_the_edges_of_rules_about_the_host(seen: Use, verdict: str) -> None:
    assert verdicts(seen)[0].verdict == verdict


def test_seldom_is_five_percent_of_samples() -> None:
    calm, busy = use([guest()]), use([guest()], busy=(90.0, 20.0))
    assert verdicts(*[calm] * 19, busy)[0].verdict == "over-provisioned host"
    assert verdicts(*[calm] * 18, busy, busy)[0].verdict == "efficiently provisioned"


@pytest.mark.parametrize(
    ("seen", "because"),
    [
        (use([guest(unreadable=WITHHELD)]), "withheld"),
        (use([guest(run=[99.0], wait=[0.0])], busy=(99.0, 1.0)), "--guest-view"),
        (use([guest(throttled=WITHHELD)]), "withheld"),
        (use([guest(wait=[30.0], wait_per_dispatch_ns=17e3, others_run=WITHHELD)]), "withheld"),
    ],
)
def test_a_guest_whose_counters_are_withheld_is_not_judged(seen: Use, because: str) -> None:
    judged = verdicts(seen)[1]["a"]
    assert judged.verdict == "not judged"
    assert because in (judged.because or "")


@pytest.mark.parametrize(
    ("seen", "because"),
    [
        (use([guest(unreadable=WITHHELD)]), "guest a: "),
        (use([guest()], busy=(WITHHELD, 20.0)), "cpu busy of CPU 0: withheld"),
        (use([guest()], memory=WITHHELD), "memory available: withheld"),
        (use(), "no guest runs"),
    ],
)
def test_a_host_whose_counters_are_withheld_is_not_judged(seen: Use, because: str) -> None:
    host = verdicts(seen)[0]
    assert host.verdict == "not judged"
    assert because in (host.because or "")


def test_a_guest_that_waits_is_told_although_another_cannot_be_read() -> None:
    host, _ = verdicts(use([guest("a", unreadable=WITHHELD), guest("b", run=[50.0], wait=[50.0])]))
    assert host.verdict == "over-committed host"


def test_guests_of_which_nothing_is_known_leave_only_themselves_unjudged() -> None:
    many = [guest(f"g{number:02}") for number in range(58)]
    xen = guest("xen", unreadable=WITHHELD)
    early, late = use([*many, xen]), use([*many, xen, guest("young")])
    host, guests = verdicts(*[early] * 15, *[late] * 5)
    assert [one.subject for one in guests.values() if one.verdict == "not judged"] == ["xen", "young"]
    assert host.verdict == "over-provisioned host"
    assert unjudged(list(guests.values())) == ["58 of 60 guests judged"]
    assert unjudged(list(guests.values())[:3]) == []


@pytest.mark.parametrize(
    ("odd", "verdict"), [(1, "over-provisioned host"), (2, "over-provisioned host"), (3, "not judged")]
)
def test_a_host_of_whose_guests_less_than_half_are_known_is_not_judged(odd: int, verdict: str) -> None:
    lost = [guest(f"x{number}", unreadable=WITHHELD) for number in range(odd)]
    host, _ = verdicts(use([guest("a"), guest("b"), *lost]))
    assert host.verdict == verdict
    if verdict == "not judged":
        assert host.because == "the waits of 2 of 5 guests are known; guest x0: vcpu wait share of vCPU 0: withheld"


def test_threads_that_move_a_guests_data_and_wait_are_its_hosts_fault() -> None:
    waits = guest("a")._replace(io=ThreadsUse(20.0, 12.0, 100.0, 5e5))
    host, guests = verdicts(use([waits], busy=(95.0, 95.0)))
    assert (host.verdict, guests["a"].verdict) == (OVER_COMMITTED, OVER_COMMITTED)
    assert host.outcome is not None
    assert host.outcome.rule.id == "io-wait"
    calm = guest("a")._replace(io=ThreadsUse(50.0, 12.0, 100.0, 5e5))
    assert verdicts(use([calm], busy=(95.0, 95.0)))[0].verdict == FITTING


def test_memory_that_was_given_twice_and_is_read_back_is_an_over_committed_host() -> None:
    def host(committed: float, swap_in: float) -> Judgement:
        return verdicts(replace(use([guest()]), memory_committed_percent=committed, swap_in_bytes_per_s=swap_in))[0]

    assert host(101.0, 1.1 * 2**20).verdict == OVER_COMMITTED
    assert host(101.0, 1.0 * 2**20).verdict == "over-provisioned host"
    assert host(100.0, 9.0 * 2**20).verdict == "over-provisioned host"


def test_a_guest_that_reads_back_its_swap_has_too_little_memory() -> None:
    def verdict(swap_in: float) -> str:
        one = guest(queue=0.0)
        assert isinstance(one.view, ViewUse)
        return of_guest(one._replace(view=replace(one.view, swap_in_bytes_per_s=swap_in))).verdict

    assert [verdict(1.1 * 2**20), verdict(1.0 * 2**20)] == ["under-provisioned guest", FITTING]


def test_a_guest_that_has_no_memory_left_keeps_its_host_from_being_over_provisioned() -> None:
    def host(*left_percent: float | None) -> str:
        guests = []
        for number, left in enumerate(left_percent):
            one = guest(f"guest {number}", queue=0.0)
            assert isinstance(one.view, ViewUse)
            told = one.view if left is None else replace(one.view, memory_available_percent=left)
            guests.append(one._replace(view=told))
        return verdicts(use(guests))[0].verdict

    assert host(80.0, 17.0) == "over-provisioned host"
    assert host(80.0, 16.0) == FITTING, "the one that has the least decides"
    assert host(None, None) == "over-provisioned host", "guests that do not tell are not asked"
    assert host(None, 5.0) == FITTING


def test_a_rule_that_could_only_say_the_same_need_not_be_decided() -> None:
    waits = guest("b", run=[50.0], wait=[50.0], wait_per_dispatch_ns=17e3, others_run=50.0)
    host, _ = verdicts(use([guest("a", unreadable=WITHHELD), waits]))
    assert host.outcome is not None
    assert (host.verdict, host.outcome.rule.id, host.outcome.of_guest) == (OVER_COMMITTED, "vcpu-wait-uml", "b")
    # One that could say something else must be.
    steal = use([guest("a", unreadable=WITHHELD), waits], steal=WITHHELD)
    assert verdicts(steal)[0].verdict == "not judged"


def test_an_optional_rule_that_cannot_be_tried_withholds_nothing() -> None:
    host, _ = verdicts(use([guest()], memory_pressure=Absent(absent="no psi")))
    assert host.verdict == "over-provisioned host"
    undecided = [one.rule.id for one in host.outcomes if one.holds is None and one.rule.optional]
    assert undecided == ["memory-pressure", "memory-overcommitted"]


def test_too_few_samples_are_not_judged() -> None:
    host, guests = verdicts(*[use([guest()])] * 9)
    assert (host.verdict, guests["a"].verdict) == ("not judged", "not judged")
    assert "only 9 of the 10 samples that are needed" in (host.because or "")


def test_figures_about_the_limit_are_not_judged() -> None:
    waits = [7.0, 28.0] * (N // 2)
    waits.sort()
    host, guests = verdicts(*[use([guest(run=[50.0], wait=[wait])], busy=(90.0, 90.0)) for wait in waits])
    assert guests["a"].verdict == "not judged"
    assert "about the limit of 25 %: watch longer" in (guests["a"].because or "")
    # That is no guest of which nothing is known: the host may well be over-committed.
    assert (host.verdict, host.because) == ("not judged", f"guest a: {guests['a'].because}")


def test_a_guest_that_came_late_is_judged_by_its_own_samples() -> None:
    early, late = use([guest("a")]), use([guest("a"), guest("b")])
    _, guests = verdicts(*[early] * 15, *[late] * 5)
    assert guests["a"].verdict == "efficiently provisioned"
    assert "only 5 of the 10 samples" in (guests["b"].because or "")


def test_a_figure_that_is_seldom_absent_is_judged_without_those_samples() -> None:
    whole, torn = use([guest()]), use([guest(unreadable=WITHHELD)])
    assert verdicts(*[whole] * 16, *[torn] * 4)[1]["a"].verdict == "efficiently provisioned"
    assert verdicts(*[whole] * 15, *[torn] * 5)[1]["a"].verdict == "not judged"


def test_the_interval_of_a_mean_by_hand() -> None:
    # Ten means of two samples each are 1 to 10: mean 5.5, standard deviation 3.0277, t(9, 97.5 %) = 2.2622.
    values = [value for mean in range(1, 11) for value in (mean - 0.5, mean + 0.5)]
    low, high = Series(values, float).interval(95.0)
    assert (low, high) == pytest.approx((5.5 - 2.2622 * 3.0277 / 10**0.5, 5.5 + 2.2622 * 3.0277 / 10**0.5), abs=1e-3)


def series_about(
    mean: float, seed: int, *, samples: int = 60, correlation: float = 0.5, spread: float = 6.0
) -> list[float]:
    """Give waits whose neighbours in time are alike, as real ones are."""
    random = np.random.default_rng(seed)
    values, last = [], 0.0
    for noise in random.normal(0.0, spread, samples):
        last = correlation * last + (1 - correlation**2) ** 0.5 * noise
        values.append(max(0.0, mean + last))
    return values


CASES = repetitions(few=100, full=400)


def share_over_committed(mean: float, cases: int = CASES) -> float:
    found = 0
    for seed in range(cases):
        waits = series_about(mean, seed)
        uses = [use([guest(run=[30.0], wait=[wait])], busy=(60.0, 60.0)) for wait in waits]
        found += verdicts(*uses)[0].verdict == "over-committed host"
    return found / cases


@pytest.mark.longer
def test_false_alarms_are_rare_and_true_ones_are_found() -> None:
    # Right at the limit half of a 95 % interval's errors are above it, 2.5 %; correlation adds as many.
    assert share_over_committed(10.0) * CASES <= wrong_at_most(0.05, CASES)
    assert share_over_committed(7.0) == 0.0
    assert share_over_committed(15.0) >= 0.95


def words(uses: Sequence[Use]) -> tuple[str, dict[str, str]]:
    host, guests = judge(uses, RULES)
    of_host, of_guests = advise(uses, host, guests)
    return of_host.change or "", {one.judgement.subject: one.change or "" for one in of_guests}


def test_two_guests_on_one_cpu_are_told_of_the_idle_one() -> None:
    pair = [guest("a", run=[50.0], wait=[50.0], cpus=[0]), guest("b", run=[49.0], wait=[51.0], cpus=[0])]
    host, guests = words([use(pair, busy=(100.0, 3.0))] * N)
    assert guests["a"] == "a, b want 2.0 CPUs and have 1 (CPU 0); let a use CPU 1 (97 % idle) too"
    assert host == guests["a"]


def test_a_full_host_is_told_to_move_a_guest() -> None:
    three = [guest(name, run=[66.0], wait=[34.0]) for name in "abc"]
    _, guests = words([use(three, busy=(100.0, 100.0))] * N)
    assert guests["c"].startswith(
        "a, b, c want 3.0 CPUs and have 2 (CPU 0, 1); no other CPU of this host is idle enough"
    )


def test_what_is_no_guest_is_named_where_it_takes_the_cpus() -> None:
    _, guests = words([use([guest("a", run=[50.0], wait=[50.0], cpus=[0])], busy=(100.0, 0.0))] * N)
    assert guests["a"].startswith("a (and processes that are no guest, 0.5 CPUs) want 1.5 CPUs and have 1 (CPU 0)")


def test_an_under_provisioned_guest_is_given_twice_its_virtual_cpus() -> None:
    needy = guest(run=[97.0, 97.0], wait=[0.0, 0.0], queue=9.0, cpus=[0, 1, 2, 3])
    _, guests = words([use([needy], busy=(97.0, 97.0, 5.0, 5.0))] * N)
    assert guests["a"] == "give it 4 vCPUs instead of 2: CPU 2 (95 % idle), CPU 3 (95 % idle) can take them"


def test_a_quota_is_named_with_what_the_guest_wants() -> None:
    held = guest(run=[50.0], wait=[50.0], throttled=50.0, quota_cpus=0.5)
    _, guests = words([use([held], busy=(50.0, 2.0))] * N)
    assert guests["a"] == "raise its quota from 0.5 to 1 CPUs, or give it less to do"


def test_an_idle_host_tells_how_many_more_guests_it_has_room_for() -> None:
    host, _ = words([use([guest(run=[10.0])], busy=(10.0, 10.0))] * N)
    assert host.startswith("there is CPU for 6 more such guests until the CPUs are 40 % busy")


def test_rules_of_ones_own_replace_the_builtin_ones() -> None:
    book = read_rules(RULE, "mine.toml")
    host, guests = judge([use([guest(run=[50.0], wait=[2.0])])] * N, book)
    assert (host.verdict, guests[0].verdict) == ("over-committed host", "over-committed host")
