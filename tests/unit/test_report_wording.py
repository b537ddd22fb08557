import pytest

from stealtime.report import notation
from stealtime.studies.latency.probes.catalogue import PROBES
from stealtime.studies.latency.wording import wording
from stealtime.vocabulary.readings import Absent, Facts, Value


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (50_128_345.2, "50.13 ms"),
        (999.97, "1.000 µs"),
        (68_000.0, "68.00 µs"),
        (0.476, "0.4760 ns"),
        (12_345_678_901.0, "12.35 s"),
        (0.0, "0"),
        (None, "\N{EN DASH}"),
    ],
)
def test_duration_has_four_digits_in_the_unit_that_fits(nanoseconds: float | None, text: str) -> None:
    assert notation.duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(3.4, "3.40"), (1.0, "1.00"), (0.98, "0.98"), (123.4, "123"), (9.996, "10.0")]
)
def test_ratio_has_three_digits_or_two_below_one(value: float, text: str) -> None:
    assert notation.ratio(value) == f"{text}\N{MULTIPLICATION SIGN}"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"hypervisor": Value(value=True)}, "is itself a virtual machine"),
        ({"hypervisor": Value(value=False)}, "the bare machine"),
        ({"hypervisor": Absent(absent="no /proc/cpuinfo")}, "is not known"),
        ({}, "is not known"),
    ],
)
def test_native_says_whether_it_is_itself_virtual(facts: Facts, expected: str) -> None:
    assert expected in wording.describe_nativeness(facts)


def test_titles_name_probe_and_parameters() -> None:
    def title(probe: str, **parameters: int) -> str:
        return PROBES[probe].describe(parameters)

    assert title("tick", loop_ns=68_000) == "Clock tick, loop of 68 µs"
    assert title("switch", threads=1000) == "Thread switch, 1000 threads"
    assert title("wakeup", interval_ns=1_500_000) == "Timer wake-up, every 1.5 ms"


@pytest.mark.parametrize(
    ("value", "text"), [(388_412.7, "388,000"), (58_649.0, "58,600"), (4.512, "4.51"), (0.0586, "0.0586")]
)
def test_rates_have_three_digits(value: float, text: str) -> None:
    assert notation.three_digits(value) == text
