"""Cells of several appliances, and of streams that are tried only as long as the server bears fewer."""

from typing import Any

import pytest
from call_cells import call_results
from telephony_cells import GUEST, cell_of, registrations

from stealtime.campaigns.file import find_campaign, read_campaign
from stealtime.campaigns.overrides import shorten
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import plan
from stealtime.lab.platforms.traits import traits_of
from stealtime.store.model import PlatformRecord
from stealtime.studies.telephony.calls.results import Calls
from stealtime.studies.telephony.calls.sweep import Sweep
from stealtime.studies.telephony.loads import CallParameters
from stealtime.studies.telephony.parameters import ServerParameters
from stealtime.studies.telephony.wording import cell_words, notes
from stealtime.vocabulary.errors import StealtimeError, UsageError

NET = {"mode": "net", "transport": "udp", "rate_per_s": 50, "interval_ns": 100_000_000}


def cells_of(probe: str, **keys: str) -> list[dict[str, Any]]:
    lines = "".join(f"{key} = {value}\n" for key, value in keys.items())
    table = f'name = "x"\nscenarios = ["telephony"]\n[[probes]]\nprobe = "{probe}"\nduration = "1s"\n{lines}'
    return [one.stored for one in read_campaign(table, "f").probes[0].parameter_sets()]


def test_one_appliance_is_called_as_before_and_several_are_told() -> None:
    asked = {"mode": '["net"]', "rate": "[50]", "appliances": "[1, 2, 4]"}
    assert cells_of("register", **asked) == [NET, {**NET, "appliances": 2}, {**NET, "appliances": 4}]
    cell = cell_of(GUEST, "register", {**NET, "appliances": 2}, [registrations(50)])
    assert "2 appliances" in cell_words(cell)
    assert any(note.startswith("Appliances: so many servers on one host") for note in notes([cell]))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"appliances": "[5]"}, "appliances"),
        ({"appliances": "[0]"}, "appliances"),
        ({"appliances": "[2]", "mode": '["replicated"]'}, "2 appliances on one host are not possible"),
        ({"appliances": "[1, 4]", "registered": "[1000]"}, "1000 users before the load are known to one appliance"),
    ],
)
def test_appliances_that_there_cannot_be_are_refused(keys: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        cells_of("register", **keys)


def test_several_appliances_are_guests_and_no_usual_server() -> None:
    several = ServerParameters(mode="off", appliances=2)
    assert not several.suits(traits_of("native"))
    assert several.suits(traits_of(GUEST))
    assert not several.is_usual
    assert ServerParameters(mode="off").suits(traits_of("native"))


def calls_losing(share: float) -> Calls:
    (whole, *_) = call_results(10)
    voice = whole.voice
    return whole.model_copy(update={"voice": voice.model_copy(update={"received": round(voice.sent * (1 - share))})})


def wanted(streams: int, **changes: Any) -> CallParameters:
    return CallParameters(**{"mode": "net", "streams": streams, "while_borne": True, **changes})


def test_a_sweep_ends_where_the_server_bears_no_more_and_says_so() -> None:
    sweep = Sweep()
    for streams, share in ((50, 0.0), (100, 0.28)):
        sweep.refuse(wanted(streams))
        sweep.note(wanted(streams), calls_losing(share))
    with pytest.raises(
        StealtimeError, match=r"^200 streams were not tried: of 100 this server lost 28\.0 % of the voice, 3\.0 %"
    ):
        sweep.refuse(wanted(200))
    # What lost too much is tried again, and so is all that did not ask for it, or is of another server.
    for other in (wanted(100), wanted(200, while_borne=False), wanted(200, mode="no-net"), wanted(200, cpus=2)):
        sweep.refuse(other)


def test_a_load_that_is_borne_after_all_is_no_limit_any_more() -> None:
    sweep = Sweep()
    sweep.note(wanted(100), calls_losing(0.28))
    sweep.note(wanted(50), calls_losing(0.0))
    with pytest.raises(StealtimeError):
        sweep.refuse(wanted(200))
    sweep.note(wanted(100), calls_losing(0.0))
    sweep.refuse(wanted(200))


def test_only_calls_that_ask_for_it_are_of_a_sweep() -> None:
    plain, asked = (cells_of("call", mode='["net"]', streams="[10]", **keys) for keys in ({}, {"while_borne": "true"}))
    assert [set(own) - set(base) for own, base in zip(asked, plain, strict=True)] == [{"while_borne"}]


@pytest.mark.parametrize("is_short", [False, True])
def test_the_campaign_of_costs_has_what_the_model_is_fitted_to_and_asked_for(is_short: bool) -> None:
    records = [PlatformRecord(name=name, usable=True, reason="") for name in ("native", GUEST)]
    campaign = find_campaign("telephony-cost")
    planned = plan(shorten(campaign) if is_short else campaign, records, HostCpus((0, 1)))
    cells = [one.cell for boot in planned.boots if boot.platform == GUEST for one in boot.cells]
    registering = [ServerParameters.of(one) for one in cells if one.probe == "register"]
    assert {one.appliances for one in registering} == {1, 2, 4}
    single = [one for one in registering if one.appliances == 1]
    several = {(one.mode, one.interval_ns) for one in registering if one.appliances > 1}
    # What is asked for several was measured of one.
    assert several <= {(one.mode, one.interval_ns) for one in single}
