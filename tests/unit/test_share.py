"""Shares: what the kernel would refuse is refused when it is read, with the kernel's limit."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stealtime.lab.platforms import registry
from stealtime.lab.platforms.model import MachineRequest
from stealtime.lab.platforms.share import Share, shares_of_weight
from stealtime.vocabulary.errors import UsageError


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"quota_percent": 0.5}, "quota_percent 0.5 is 0.5 ms .* no quota below 1ms .here 1 percent"),
        ({"quota_percent": 10, "period": "5ms"}, "quota_percent 10 is 0.5 ms .* no quota below 1ms .here 20 percent"),
        ({"quota_percent": 0}, "no quota below 1ms"),
        ({"quota_percent": -3}, "no quota below 1ms"),
        ({"quota_percent": float("nan")}, "no quota below 1ms"),
        ({"quota_percent": float("inf")}, "more than the kernel can count"),
        ({"quota_percent": 50, "period": "999us"}, "period 999us is out of range: the kernel takes 1ms to 1s"),
        ({"quota_percent": 50, "period": "2s"}, "period 2s is out of range"),
        ({"weight": 0}, "weight 0 is out of range: the kernel takes 1 to 10000"),
        ({"weight": 10001}, "weight 10001 is out of range"),
        ({}, "needs quota_percent, weight or both"),
        ({"limit": 50}, "Extra inputs"),
    ],
)
def test_a_share_that_the_kernel_would_refuse_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Share.model_validate(fields)


def test_a_quota_is_written_as_the_kernel_wants_it() -> None:
    share = Share.model_validate({"quota_percent": 37.5, "period": "20ms"})
    assert (share.quota_us, share.period_us, share.words) == (7_500, 20_000, "at most 37.5 % of a CPU")
    assert (Share(quota_percent=1).quota_us, Share(quota_percent=250).quota_us) == (1_000, 250_000)
    assert Share(weight=7).quota_us is None


@pytest.mark.parametrize(("weight", "shares"), [(1, 10), (2, 20), (3, 31), (50, 512), (100, 1024), (10_000, 102_400)])
def test_a_weight_becomes_shares_as_the_kernel_converts_it(weight: int, shares: int) -> None:
    assert shares_of_weight(weight) == shares


@given(st.integers(1, 9_999))
def test_more_weight_is_more_shares(weight: int) -> None:
    assert 2 <= shares_of_weight(weight) < shares_of_weight(weight + 1) <= 262_144


async def test_a_share_of_another_host_is_refused_before_it_is_reached(tmp_path: Path) -> None:
    request = MachineRequest(((1,),), (0,), tmp_path, share=Share(quota_percent=50))
    with pytest.raises(UsageError, match=r"ssh:nowhere\.invalid cannot be held to a share .at most 50 % of a CPU"):
        async with registry.find("ssh:nowhere.invalid").boot(request):
            pytest.fail("it must not be reached")
