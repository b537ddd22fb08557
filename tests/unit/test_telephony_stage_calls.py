"""Calls through two stages: through which front each goes, whose it is, and how killed primary and others are told."""

from typing import Any

import pytest
from call_cells import _dialogues, stage_call_failover
from pydantic import ValidationError
from telephony_cells import GUEST, MS, cell_of

from stealtime.report.answer import Quotes
from stealtime.report.catalogue.rows import tables_of
from stealtime.studies.telephony.answer import _died
from stealtime.studies.telephony.calls.fronted import Through, dialogues_together, stage_plan, through_fronts
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.relays import Relays
from stealtime.studies.telephony.calls.results import StreamVoice
from stealtime.studies.telephony.calls.stage_results import calls_by_primary, primary_calls
from stealtime.studies.telephony.limits import limits
from stealtime.studies.telephony.parameters import ServerParameters
from stealtime.studies.telephony.place.location import Located
from stealtime.studies.telephony.place.two_stage import standby_numbers
from stealtime.studies.telephony.probes import TwoStageCallFailoverCells, TwoStageFailoverCells
from stealtime.studies.telephony.study import STUDY
from stealtime.vocabulary.errors import StealtimeError, UsageError

FRONTS = ("10.0.0.1", "10.0.0.2")
STAGES = {"mode": "net+bypass", "interval_ns": 100 * MS, "primaries": 2, "streams": 20}


def located(name: str, number: int, *phones: int) -> Located:
    return Located(name, FRONTS[number], 5060, phones)


def test_phones_register_by_another_front_than_that_of_their_callers() -> None:
    # Two orders of targets may begin with one front.
    dealt = through_fronts([located("two", 1, 4, 0), located("one", 0, 1), located("two", 1, 2)], FRONTS)
    assert dealt == [
        Through("one", "10.0.0.1", "10.0.0.2", (1,)),
        Through("two", "10.0.0.2", "10.0.0.1", (0, 2, 4)),
    ]
    assert through_fronts([located("two", 1, 0)], FRONTS) == [Through("two", "10.0.0.2", "10.0.0.1", (0,))]


def test_a_part_of_calls_has_the_ports_that_it_has_among_all() -> None:
    plan = CallPlan(5)
    part = plan.part([1, 4])
    assert part.calls == 2
    assert part.caller_ports == [plan.caller_ports[1], plan.caller_ports[4]]
    assert part.fields == [plan.fields[1], plan.fields[4]]
    assert CallPlan(2).phones == plan.part([0, 1]).phones
    stages = stage_plan(20)
    assert (stages.calls, stages.phones) == (10, CallPlan(100).phones[81:91])
    assert stages.part([9]).phones == stages.phones[9:]
    with pytest.raises(UsageError, match="1920 calls cannot be made"):
        stage_plan(3840)


def test_voice_goes_to_any_of_the_primaries_and_to_nobody_else() -> None:
    plan = CallPlan(2)
    told = Relays(
        dict(zip(plan.caller_ports, ["10.0.0.7:30000", "10.0.0.8:30000"], strict=True)),
        dict(zip(plan.phones, ["10.0.0.7:30002", "10.0.0.8:30002"], strict=True)),
    )
    assert told.destinations(plan, "10.0.0.7", "10.0.0.8").of_callers == ["10.0.0.7:30000", "10.0.0.8:30000"]
    with pytest.raises(StealtimeError, match=r"would go to 10\.0\.0\.8:30000 and not to the relay at 10\.0\.0\.7"):
        told.destinations(plan, "10.0.0.7")


def test_what_callers_at_both_fronts_saw_is_added_up() -> None:
    both = dialogues_together([_dialogues(5), _dialogues(3)], [3.0, 1.0, 2.0], [])
    assert (both.begun, both.answered, both.ended, both.kept) == (8, 8, 8, 8)
    assert both.answer_ns is not None
    assert both.answer_ns.median == 2.0
    assert both.end_ns is None


def stream(call: int, silence_ns: int | None, *, lost: int = 0, ended: bool = True) -> StreamVoice:
    return StreamVoice(
        call=call, sent=100, received=100 - lost, late=1, reordered=0, delay_ns=None, jitter_ns=None,
        silence_ns=silence_ns, silence_began_ns=None if silence_ns is None else 7 * call, silence_ended=ended, mos=4.0,
    )  # fmt: skip


def test_streams_are_those_of_the_primary_that_relays_their_call() -> None:
    owners = [0, 1, 0]
    streams = [stream(0, 30), stream(1, 500, lost=20, ended=False), stream(2, 90, lost=3), stream(2, None)]
    first, second = calls_by_primary(streams, owners.__getitem__, 2)
    own = primary_calls("a", "b", [0, 2], {0, 1}, first)
    assert (own.calls, own.kept, own.streams_heard, own.streams_unended) == (2, 1, 3, 0)
    assert (own.sent, own.lost, own.late, own.silence_ns, own.silence_began_ns) == (300, 3, 3, 90, 14)
    other = primary_calls("c", "d", [1], {0, 1}, second)
    assert (other.kept, other.lost, other.silence_ns, other.streams_unended) == (1, 20, 500, 1)


def test_a_standby_is_behind_the_hosts_of_all_primaries() -> None:
    assert standby_numbers(2, 1) == standby_numbers(3, 1) == (1,)
    assert standby_numbers(2, 2) == (1, 3)
    assert standby_numbers(3, 2) == (1, 4)
    for primaries in (2, 3):
        for standbys in (1, 2):
            # No more than a scenario is asked for.
            needed = ServerParameters(mode="net", primaries=primaries, standbys=standbys).hosts_needed
            assert max(standby_numbers(primaries, standbys)) < needed


def test_a_second_standby_tells_cells_apart_and_one_is_not_told() -> None:
    def standbys(table: type[TwoStageCallFailoverCells | TwoStageFailoverCells], probe: str) -> list[Any]:
        cells = table.model_validate({"probe": probe, "duration": "1s", "standbys": [1, 2]})
        return [one.stored.get("standbys") for one in cells.parameter_sets()]

    assert standbys(TwoStageCallFailoverCells, "two-stage-call-failover") == [None, 2]
    assert standbys(TwoStageFailoverCells, "two-stage-failover") == [None, 2]
    for key, value in (("standbys", 3), ("streams", 3), ("victim", "front"), ("mode", "replicated")):
        with pytest.raises(ValidationError, match=key):
            TwoStageCallFailoverCells.model_validate(
                {"probe": "two-stage-call-failover", "duration": "1s", key: [value]}
            )


def test_the_gap_is_that_of_the_killed_primary_alone_where_it_holds_the_fault() -> None:
    seen = stage_call_failover()
    assert (seen.gap_ns, seen.others_voice_silence_ns) == (300 * MS, 22 * MS)
    assert (seen.silence_ns, seen.others_silence_ns, seen.others_silence_before_ns) == (350 * MS, 120 * MS, 100 * MS)
    first, second = seen.calls
    # A longer silence of the others is no gap of the failover, and one of before is not either.
    others = second.model_copy(update={"silence_ns": 900 * MS, "silence_began_ns": seen.fault_ns})
    assert seen.model_copy(update={"calls": [first, others]}).gap_ns == 300 * MS
    before = first.model_copy(update={"silence_began_ns": seen.fault_ns - 400 * MS})
    assert seen.model_copy(update={"calls": [before, second]}).gap_ns is None
    both = seen.model_copy(update={"victim": "all-primaries"})
    assert ([one.host for one in both.died], both.others) == (["a", "c"], [])


def test_killed_primary_and_others_stand_side_by_side() -> None:
    cell = cell_of(GUEST, "two-stage-call-failover", {**STAGES, "standbys": 2}, [stage_call_failover()])
    voice, signalling = (table.rows[0] for table in tables_of(STUDY, [cell]) if table.title.startswith("Two stages"))
    assert voice[1:6] == ("300 ms", "22.0 ms", "133 ms", "3 %", "0 %")
    assert signalling[1:7] == ("100 %", "100 %", "5", "5", "5", "5")
    assert "2 primaries and 2 standbys" in voice[0]
    said = _died(Quotes(), [cell])
    assert "5 of 5 calls of its users kept, 5 of 5 of the others, its users heard nothing for 300 ms" in said
    assert cell.bounded().longest_ns == 300 * MS
    assert limits([stage_call_failover()]) == []


def test_a_call_that_was_cut_and_an_idle_primary_are_told() -> None:
    seen = stage_call_failover()
    first, second = seen.calls
    cut = seen.model_copy(update={"calls": [first.model_copy(update={"kept": 3}), second]})
    assert "2 of 5 calls of primaries whose hosts died were not kept: their BYE was not answered" in limits([cut])
    cell = cell_of(GUEST, "two-stage-call-failover", STAGES, [cut])
    assert cell.bounded().endless == "2 of 10 calls were not kept"
    idle = seen.model_copy(update={"calls": [first, second.model_copy(update={"calls": 0, "kept": 0})]})
    assert any("a primary had no call" in one for one in limits([idle]))
