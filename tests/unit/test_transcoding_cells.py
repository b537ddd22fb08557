"""Cells of calls that are transcoded, and of calls whose server loses its standby: parameters, figures and words."""

from typing import Any

import pytest
from call_cells import call_cells
from pydantic import ValidationError
from telephony_cells import GUEST, MS, cell_of

from stealtime.report.catalogue.rows import tables_of
from stealtime.studies.telephony.appliance.configuration import WIDEBAND_DOMAIN, ServerConfiguration
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.results import (
    CallFailover,
    Calls,
    Dialogues,
    RegistrationsMeanwhile,
    StreamVoice,
    Transcoded,
    Voice,
    spread_of,
)
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.lengths import VOICE_WITHOUT_STANDBY_S
from stealtime.studies.telephony.loads import CallFailoverParameters
from stealtime.studies.telephony.probes import CallCells, CallFailoverCells
from stealtime.studies.telephony.results import Unprotected
from stealtime.studies.telephony.study import STUDY
from stealtime.studies.telephony.wording import notes, recommendations

_BYPASS = {"mode": "net+bypass", "interval_ns": 100 * MS, "streams": 2}
_TRANSCODING = {**_BYPASS, "media": "transcoding"}
_FAULT_NS = 1_000 * MS


def _voice(transcoded: Transcoded | None = None, **changed: Any) -> Voice:
    stream = StreamVoice(
        sent=500, received=500, late=0, reordered=0, delay_ns=None, jitter_ns=1e3, silence_ns=21 * MS,
        mos=None if transcoded else 4.3,
    )  # fmt: skip
    known: dict[str, Any] = {
        "streams": 2, "heard": 2, "sent": 1_000, "refused": 0, "received": 1_000, "duplicated": 0, "reordered": 0,
        "late": 0, "delay_ns": spread_of([1e6, 2e6]), "jitter_ns": 1e3, "silence_ns": 21 * MS, "silence_began_ns": 7,
        "sender_late_p99_ns": 100, "each": [stream, stream], "invalid": [], "limits": [], "transcoded": transcoded,
    }  # fmt: skip
    return Voice.model_validate({**known, **changed})


def _transcoded(**changed: Any) -> Transcoded:
    known = {
        "phones_codec": "G722", "heard": 1_000, "passed_on": 0, "odd": 0, "judged": 700, "right": 699,
        "source_changes": 0, "renumbered": 0,
    }  # fmt: skip
    return Transcoded.model_validate({**known, **changed})


def _dialogues() -> Dialogues:
    return Dialogues(
        begun=1, answered=1, ended=1, retransmissions=0, callee_retransmissions=0, failed=0, answer_ns=None, end_ns=None
    )


def _calls(server_percent: float, transcoded: Transcoded | None = None) -> Calls:
    return Calls(
        dialogues=_dialogues(), voice=_voice(transcoded), server_cpu_ns=round(server_percent * MS),
        host_cpu_ns=10 * MS, elapsed_ns=100 * MS,
    )  # fmt: skip


def _without_standby(again_ns: int = 4_000 * MS, **voice: Any) -> CallFailover:
    """A standby is lost that comes back after a second, and the server is alone after 100 ms."""
    return CallFailover(
        dialogues=_dialogues(), voice=_voice(**voice), victim="standby",
        unprotected=Unprotected(
            fault_to_noticed_ns=2 * MS, fault_to_alone_ns=100 * MS, fault_to_protected_ns=again_ns,
            fault_to_back_ns=1_000 * MS,
        ),
        registrations=RegistrationsMeanwhile(sent=30, acknowledged=30, lost=0), fault_ns=_FAULT_NS, running_ns=None,
        moments=[],
    )  # fmt: skip


def _titles(cells: list[TelephonyFigures]) -> list[str]:
    return [table.title for table in tables_of(STUDY, cells)]


def test_what_a_server_does_with_voice_tells_cells_apart_and_not_servers() -> None:
    cells = CallCells.model_validate(
        {"probe": "call", "duration": "1s", "mode": ["net"], "media": ["relay", "transcoding"]}
    )
    assert [one.stored.get("media") for one in cells.parameter_sets()] == [None, "transcoding"]
    plan = CallPlan.of_streams(4, media="transcoding")
    assert (plan.phones_codec.name, plan.phones_codec.payload_type) == ("G722", 9)
    assert (CallPlan(1).phones_codec.name, CallPlan(1).phones_codec.payload_type) == ("PCMU", 0)


def test_the_proxy_asks_for_the_other_codec_in_one_domain_alone() -> None:
    proxy = ServerConfiguration(role="signalling", address="10.0.0.1", media_address="10.0.0.2").files["kamailio.cfg"]
    (line,) = [line for line in proxy.splitlines() if "codec-transcode-G722" in line]
    assert f'if ($td == "{WIDEBAND_DOMAIN}")' in line


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"mode": ["replicated"], "victim": ["standby"]}, "the mode 'replicated' has the victim 'primary' only"),
        ({"fault": ["planned"], "victim": ["standby"]}, "the fault 'planned' moves a guest"),
    ],
)
def test_a_standby_that_cannot_be_lost_so_is_refused(wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CallFailoverCells.model_validate({"probe": "call-failover", "duration": "1s", **wanted})


def test_the_voice_of_calls_without_a_standby_takes_its_time() -> None:
    def beyond_s(**changed: Any) -> float:
        return CallFailoverParameters(mode="net", streams=2, **changed).beyond_s(3.0)

    assert beyond_s(victim="standby") == beyond_s() + VOICE_WITHOUT_STANDBY_S
    assert beyond_s(victim="standby", fault="silent") == beyond_s(victim="standby") + 3.0


def test_a_stream_that_is_transcoded_is_held_against_one_that_is_passed_on() -> None:
    relay = cell_of(GUEST, "call", _BYPASS, [_calls(4.0 + number / 100) for number in range(4)])
    other = cell_of(GUEST, "call", _TRANSCODING, [_calls(12.0 + number / 100, _transcoded()) for number in range(4)])
    # 4 of 100 ms of one CPU, for two streams.
    assert relay.figure("server_cpu_stream_percent").of_repetitions[0] == 2.0
    (said,) = [line for line in notes([relay, other]) if "a stream that is transcoded takes" in line]
    assert "takes 6.01 % of a CPU of the server instead of 2.01 %: 2.99 times as much" in said
    # Where only one was measured, or another load, there is nothing to say.
    elsewhere = cell_of(GUEST, "call", {**_TRANSCODING, "streams": 4}, [_calls(12.0, _transcoded())])
    assert not [line for line in notes([relay, elsewhere]) if "a stream that is transcoded takes" in line]
    assert "is not judged" in notes([relay, cell_of(GUEST, "call", _TRANSCODING, [_calls(12.0, _transcoded())])])[-1]


def test_what_was_transcoded_has_a_table_and_no_score() -> None:
    cells = [cell_of(GUEST, "call", _TRANSCODING, [_calls(12.0, _transcoded()) for _ in range(2)])]
    assert (cells[0].count("tones_judged"), cells[0].count("tones_right"), cells[0].count("renumbered")) == (
        1400,
        1398,
        0,
    )
    assert cells[0].figure("mos").p50 is None
    assert "Calls whose voice is put into another codec: what came of it" in _titles(cells)
    assert "Calls whose voice is put into another codec: what came of it" not in _titles(call_cells())


def test_a_trial_that_was_not_transcoded_is_not_valid() -> None:
    result = _calls(12.0, _transcoded(passed_on=1_000, heard=0))
    bad = result.model_copy(update={"voice": _voice(_transcoded(), invalid=["the server did not transcode them"])})
    cell = cell_of(GUEST, "call", _TRANSCODING, [bad])
    assert not cell.valid


def test_no_mode_is_recommended_for_what_is_transcoded_or_has_lost_a_standby() -> None:
    cells = call_cells()
    usual = recommendations(cells)
    others = [
        cell_of(GUEST, "call", _TRANSCODING, [_calls(12.0, _transcoded())]),
        cell_of(GUEST, "call-failover", {**_BYPASS, "victim": "standby"}, [_without_standby()]),
    ]
    assert recommendations([*cells, *others]) == usual


def test_the_gap_of_a_lost_standby_is_the_silence_until_the_server_was_alone() -> None:
    silence = {"silence_ns": 150 * MS}
    assert _without_standby(**silence, silence_began_ns=_FAULT_NS - 20 * MS).gap_ns == 150 * MS
    assert _without_standby(**silence, silence_began_ns=_FAULT_NS + 90 * MS).gap_ns == 150 * MS
    assert _without_standby(**silence, silence_began_ns=_FAULT_NS + 110 * MS).gap_ns is None


def test_calls_without_a_standby_have_a_table_of_their_own() -> None:
    cells = [cell_of(GUEST, "call-failover", {**_BYPASS, "victim": "standby"}, [_without_standby()])]
    assert _titles(cells) == ["When the host that backs the server is lost under calls"]
    assert cells[0].figure("back_to_protected_ns").p50 == 3_000 * MS
    assert cells[0].figure("fault_to_running_ns").p50 is None
    assert cells[0].limits == []
    late = _without_standby(again_ns=round(1e9 * VOICE_WITHOUT_STANDBY_S) + 1_001 * MS)
    (limit,) = cell_of(GUEST, "call-failover", {**_BYPASS, "victim": "standby"}, [late]).limits
    assert limit.startswith("all had been said before the server was protected again")
