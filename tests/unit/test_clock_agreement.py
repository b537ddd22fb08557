"""A clock beside the host's: a wrong second is found, and no round trip makes one."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stealtime.vocabulary.alignment import Alignment, ClockExchange, align
from stealtime.vocabulary.clock_agreement import LIMIT_PPM, ClockAgreement, host_agreement, kernel_agreement, worst
from stealtime.vocabulary.clocks import ClockCheck, ClockReading, ClockRecord
from stealtime.vocabulary.readings import Absent, Reading, Value

TSC_HZ = 2_100_000_000.0
HOST_START_NS = 1_000_000_000_000

trips_ns = st.integers(min_value=0, max_value=20_000_000)


def exchange(at_ns: int, there_ns: int, back_ns: int, speed: float) -> Alignment:
    """Exchange clocks with a machine that counts ``speed`` seconds in one of the host's."""
    machine_ns = round((at_ns + there_ns - HOST_START_NS) * speed) + 77_000_000_000
    reading = ClockReading(
        tsc=round(machine_ns * TSC_HZ / 1e9), monotonic_raw_ns=0, monotonic_ns=machine_ns, bracket_tsc=40
    )
    return align([ClockExchange(at_ns, at_ns + there_ns + back_ns, reading)])


def compared(ppm: float, elapsed_ns: int, trip_ns: int = 200_000, *, is_host: bool = False) -> ClockAgreement:
    before = exchange(HOST_START_NS, trip_ns // 2, trip_ns // 2, 1 + ppm / 1e6)
    after = exchange(HOST_START_NS + elapsed_ns, trip_ns // 2, trip_ns // 2, 1 + ppm / 1e6)
    return host_agreement("tsc", TSC_HZ, before, after, is_host=is_host)


@given(
    ppm=st.floats(min_value=-LIMIT_PPM, max_value=LIMIT_PPM), elapsed_ns=st.integers(10**6, 10**11),
    trips=st.tuples(trips_ns, trips_ns, trips_ns, trips_ns), name=st.sampled_from(["tsc", "monotonic"]),
)  # fmt: skip
def test_a_clock_within_the_limit_is_never_called_wrong(
    ppm: float, elapsed_ns: int, trips: tuple[int, int, int, int], name: str
) -> None:
    speed = 1 + ppm / 1e6
    before = exchange(HOST_START_NS, trips[0], trips[1], speed)
    after = exchange(HOST_START_NS + trips[0] + trips[1] + elapsed_ns, trips[2], trips[3], speed)
    units_per_s = TSC_HZ if name == "tsc" else 1e9
    assert host_agreement(name, units_per_s, before, after, is_host=False).state in ("agreed", "not checked")


@given(
    ppm=st.floats(min_value=-900_000, max_value=900_000), elapsed_ns=st.integers(10**6, 10**11),
    trips=st.tuples(trips_ns, trips_ns, trips_ns, trips_ns), is_host=st.booleans(),
)  # fmt: skip
def test_a_clock_beyond_the_limit_and_twice_the_bound_is_always_called_wrong(
    ppm: float, elapsed_ns: int, trips: tuple[int, int, int, int], is_host: bool
) -> None:
    speed = 1 + ppm / 1e6
    before = exchange(HOST_START_NS, trips[0], trips[1], speed)
    after = exchange(HOST_START_NS + trips[0] + trips[1] + elapsed_ns, trips[2], trips[3], speed)
    found = host_agreement("tsc", TSC_HZ, before, after, is_host=is_host)
    assert found.error_ppm is not None
    # The bound holds for the true rate; in the machine's own, faster or slower seconds it is stretched with it.
    assume(abs(ppm) > LIMIT_PPM + 2 * found.error_ppm * max(speed, 1.0) + 1)
    assert found.state == "disagreed", found


@pytest.mark.parametrize("ppm", [100_000, -100_000, 1_000, -1_000])
def test_a_second_wrong_by_a_tenth_or_a_thousandth_is_found_over_two_seconds(ppm: float) -> None:
    assert compared(ppm, 2 * 10**9).state == "disagreed"


def test_a_trial_too_short_to_tell_says_how_little_it_knows() -> None:
    found = compared(1_000, 100_000_000)
    assert (found.state, found.reason) == ("not checked", "not to better than 3,001 ppm: the trial was too short")
    assert compared(10, 20 * 10**9).reason == "+10 ppm, known to within 10 ppm"


def test_natively_agreement_proves_nothing_and_disagreement_still_does() -> None:
    assert compared(0, 2 * 10**9, is_host=True).state == "not independent"
    assert compared(1_000, 2 * 10**9, is_host=True).state == "disagreed"


def test_a_clock_that_older_versions_did_not_exchange_is_not_judged() -> None:
    one = exchange(HOST_START_NS, 1, 1, 1.0).model_copy(update={"machine_monotonic_ns": None})
    assert host_agreement("monotonic", 1e9, one, one, is_host=False).state == "not checked"
    assert host_agreement("tsc", TSC_HZ, one, one, is_host=False).state == "not checked"


def record(source: Reading | None, disagreement_ppm: float) -> ClockRecord:
    reading = ClockReading(tsc=1, monotonic_raw_ns=1, monotonic_ns=1, bracket_tsc=1)
    return ClockRecord(
        name="tsc", units_per_s=TSC_HZ, tsc_hz=TSC_HZ, tsc_hz_source="a test",
        check=ClockCheck(disagreement_ppm=disagreement_ppm, error_ppm=1.0, limit_ppm=500.0),
        facts={} if source is None else {"clocksource": source},
        start=reading, end=reading, start_realtime_ns=0, origin_units=0,
    )  # fmt: skip


@pytest.mark.parametrize("source", ["tsc", "tsc-early", "kvm-clock", "hyperv_clocksource_tsc_page", "timer"])
def test_a_kernel_that_keeps_its_time_with_the_counter_cannot_check_it(source: str) -> None:
    found = kernel_agreement(record(Value(value=source), 0.0))
    assert found.state == "not independent"
    assert "kept its time with" in found.reason


@pytest.mark.parametrize("source", ["hpet", "acpi_pm"])
def test_a_kernel_with_another_clock_can(source: str) -> None:
    assert kernel_agreement(record(Value(value=source), 0.0)).state == "agreed"


@pytest.mark.parametrize("source", [Value(value="tsc"), Value(value="hpet"), None, Absent(absent="no such file")])
def test_a_counter_that_changed_its_rate_disagrees_whatever_it_is_checked_against(source: Reading | None) -> None:
    assert kernel_agreement(record(source, 502.0)).state == "disagreed"
    assert kernel_agreement(record(source, float("nan"))).state == "disagreed"


@pytest.mark.parametrize("source", [None, Absent(absent="no such file")])
def test_a_clock_source_that_is_not_known_is_not_taken_for_another_one(source: Reading | None) -> None:
    assert kernel_agreement(record(source, 0.0)).state == "not independent"


def test_the_worst_is_what_says_least_good() -> None:
    agreed, wider, short = compared(3, 10**10), compared(30, 10**10), compared(0, 10**7)
    own, wrong = compared(0, 10**10, is_host=True), compared(9_000, 10**10)
    assert worst([]) is None
    assert worst([agreed, wider]) == wider
    assert worst([wider, own, agreed]) == own
    assert worst([own, short, agreed]) == short
    assert worst([wrong, short]) == wrong
