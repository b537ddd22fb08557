"""One more guest on the command line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stealtime.capacity.prediction.addition import Addition, read_addition
from stealtime.vocabulary.errors import UsageError

CPUS = frozenset(range(4))


def test_a_guest_is_read_with_all_that_may_be_said_of_it() -> None:
    assert read_addition("2vcpu,busy=60%", CPUS) == Addition("2vcpu,busy=60%", 2, 0.6)
    text = "1 vCPU, busy=12.5%, weight=300, cpus=0-1,3, count=2, name=db"
    assert read_addition(text, CPUS) == Addition(text, 1, 0.125, 300, frozenset({0, 1, 3}), 2, "db")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is no number of virtual CPUs"),
        ("2vcpu", "does not say how busy"),
        ("two,busy=60%", "'two' is no number of virtual CPUs"),
        ("0vcpu,busy=60%", "vcpu=0 is no whole number from 1 to 4096"),
        ("99999vcpu,busy=60%", "vcpu=99999 is no whole number"),
        ("2vcpu,busy=60", "write busy=60% if percent is meant"),
        ("2vcpu,busy=0%", "busy=0% is not above 0 %"),
        ("2vcpu,busy=-1%", "busy=-1% is not above 0 %"),
        ("2vcpu,busy=101%", "busy=101% is not above 0 %"),
        ("2vcpu,busy=nan%", "busy=nan% is no number"),
        ("2vcpu,busy=6_0%", "busy=6_0% is no number"),
        ("2vcpu,busy=\uff160%", "is no number"),
        ("4096vcpu,busy=60%,count=2", "more than 4096 virtual CPUs"),
        ("2vcpu,busy=inf%", "busy=inf% is no number"),
        ("2vcpu,busy=x%", "busy=x% is no number"),
        ("2vcpu,busy=60%,busy=70%", "busy= is there twice"),
        ("2vcpu,busy=60%,memory=1", "'memory=1' is none of busy="),
        ("2vcpu,busy=60%,weight=0", "weight=0 is no whole number from 1 to 10000"),
        ("2vcpu,busy=60%,count=1.5", "count=1.5 is no whole number"),
        ("2vcpu,busy=60%,cpus=2-9", "names CPU 4, which this host does not have online"),
        ("2vcpu,busy=60%,cpus=0-", "cpus=0- is no list of CPUs"),
        ("2vcpu,busy=60%,cpus=3-1", "cpus=3-1 names no CPU"),
        ("2vcpu,busy=60%,cpus=0-999999999999", "is no list of CPUs"),
        ("2vcpu,busy=60%,name=", "name= is empty"),
    ],
)
def test_what_is_none_is_refused_with_what_is_wrong_in_it(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_addition(text, CPUS)
    assert why in refused.value.message
    assert "2vcpu,busy=60%" in str(refused.value.hint)


PARTS = (
    "2vcpu",
    "vcpu",
    "0",
    "busy=",
    "60",
    "%",
    ",",
    "cpus=",
    "1",
    "-",
    "weight=",
    "=",
    " ",
    "nan",
    "count=",
    "name=",
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=9).map("".join))
def test_whatever_is_typed_is_a_guest_or_refused(text: str) -> None:
    try:
        found = read_addition(text, CPUS)
    except UsageError:
        return
    assert found.vcpus >= 1
    assert 0.0 < found.busy <= 1.0
