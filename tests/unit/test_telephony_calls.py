"""Calls of the study of telephony: what is read of SIPp and of the voice, and what is made of it."""

from typing import Any

import pytest

from stealtime.studies.telephony.calls.answers import gather
from stealtime.studies.telephony.calls.figures import CallFigures, CallLoad, figures_of
from stealtime.studies.telephony.calls.heard import voice_of
from stealtime.studies.telephony.calls.plan import CALLS_MAX, CallPlan
from stealtime.studies.telephony.calls.recommendation import JudgedCalls, recommend
from stealtime.studies.telephony.calls.relays import Relays, told_relays
from stealtime.studies.telephony.calls.results import (
    CallFailover,
    Calls,
    Dialogues,
    Moment,
    RegistrationsMeanwhile,
    StreamVoice,
    Voice,
    spread_of,
)
from stealtime.studies.telephony.catalogue import CATALOGUE
from stealtime.studies.telephony.limits import limits
from stealtime.studies.telephony.page.calls import Drawn, delay_figure, draw_boxes, draw_time_line, time_line
from stealtime.studies.telephony.sipp.log import LoggedMessage
from stealtime.vocabulary.errors import StealtimeError, UsageError

_MS = 1_000_000
_SERVER = "10.77.1.100"
CALL = CATALOGUE.probes["call"]


def _answered(call: int, relay: str, at_ns: int = 5) -> LoggedMessage:
    return LoggedMessage("answered", str(call), relay, at_ns)


def _dialogues(**changed: Any) -> Dialogues:
    counts = {"begun": 2, "answered": 2, "ended": 2, "retransmissions": 0, "callee_retransmissions": 0, "failed": 0}
    return Dialogues(**{**counts, "answer_ns": spread_of([1e6, 3e6]), "end_ns": None, **changed})


def _voice(delay_ns: float = 500_000.0, lost: int = 0, sent: int = 10_000, **changed: Any) -> Voice:
    stream = StreamVoice(
        sent=sent,
        received=sent - lost,
        late=0,
        reordered=0,
        delay_ns=None,
        jitter_ns=1e3,
        silence_ns=21 * _MS,
        mos=4.36,
    )
    known = {
        "streams": 1, "heard": 1, "sent": sent, "refused": 0, "received": sent - lost, "duplicated": 0, "reordered": 0,
        "late": 0, "delay_ns": spread_of([delay_ns / 2, delay_ns, 2 * delay_ns]), "jitter_ns": 1e3,
        "silence_ns": 21 * _MS, "silence_began_ns": 7, "sender_late_p99_ns": 100, "each": [stream], "invalid": [],
        "limits": [],
    }  # fmt: skip
    return Voice.model_validate({**known, **changed})


def _cell(mode: str, delays_ns: list[float], roles: str = "together", **voice: Any) -> JudgedCalls:
    results = [
        Calls(dialogues=_dialogues(), voice=_voice(delay_ns, **voice), server_cpu_ns=5, host_cpu_ns=10, elapsed_ns=100)
        for delay_ns in delays_ns
    ]
    load = CallLoad(streams=1, mode=mode, interval_ns=100 * _MS, roles=roles)
    return JudgedCalls("qemu-tcg-paravirt", figures_of(load, results))


def _failed_over(failovers: int, ended: int = 2, lost: int = 0) -> JudgedCalls:
    return JudgedCalls(
        "qemu-tcg-paravirt",
        figures_of(CallLoad(streams=1, mode="net+bypass", interval_ns=100 * _MS), [_failover(ended, lost)] * failovers),
    )


def _failover(ended: int = 2, lost: int = 0, began_ns: int = 990 * _MS) -> CallFailover:
    return CallFailover(
        dialogues=_dialogues(ended=ended),
        voice=_voice(silence_ns=200 * _MS, silence_began_ns=began_ns),
        registrations=RegistrationsMeanwhile(sent=30, acknowledged=30, lost=lost),
        fault_ns=1_000 * _MS,
        running_ns=1_100 * _MS,
        moments=[Moment(what="killed", at_ns=1_000 * _MS), Moment(what="runs", at_ns=1_100 * _MS)],
    )


def test_no_two_calls_share_a_port_and_none_is_one_of_the_server() -> None:
    plan = CallPlan(CALLS_MAX)
    ports = [*plan.caller_ports, *plan.phones]
    assert len(set(ports)) == 2 * CALLS_MAX
    # rtpengine's own ones, and with them the rule of what bypasses, begin at 30000.
    assert max(ports) < 30000
    assert CallPlan(2).fields == ["24000;20000", "24002;20002"]
    with pytest.raises(UsageError, match="0 calls"):
        CallPlan(0)


def test_streams_are_one_way_so_that_a_call_has_two() -> None:
    assert CallPlan.of_streams(400).calls == 200
    with pytest.raises(UsageError, match="11 streams are no whole calls"):
        CallPlan.of_streams(11)


def _relays(callers: list[str], phones: list[str]) -> Relays:
    return Relays(
        {20000 + 2 * call: relay for call, relay in enumerate(callers)},
        {24000 + 2 * call: relay for call, relay in enumerate(phones)},
    )


def test_destinations_are_in_the_order_of_the_calls_whoever_was_told_first() -> None:
    invited = [LoggedMessage("invited", f"{port}", f"{_SERVER}:{relay}", 4) for port, relay in ((24002, 6), (24000, 2))]
    answers = gather([_answered(20002, f"{_SERVER}:30004"), _answered(20000, f"{_SERVER}:30000")])
    found = Relays(answers.relays, told_relays(invited, "invited")).destinations(CallPlan(2), _SERVER)
    assert found.of_callers == [f"{_SERVER}:30000", f"{_SERVER}:30004"]
    assert found.of_phones == [f"{_SERVER}:2", f"{_SERVER}:6"]


@pytest.mark.parametrize(
    ("callers", "phones", "message"),
    [
        ([30000], [30002, 30006], "1 of 2 calls were not answered"),
        ([30000, 30004], [30002], "1 of 2 calls were not answered"),
        ([30000, 30000], [30002, 30006], "one port to two ends"),
        ([30000, 30004], [30002, 30004], "one port to two ends"),
    ],
)
def test_calls_without_a_port_of_the_relay_for_each_end_are_refused(
    callers: list[int], phones: list[int], message: str
) -> None:
    relays = _relays([f"{_SERVER}:{port}" for port in callers], [f"{_SERVER}:{port}" for port in phones])
    with pytest.raises(StealtimeError, match=message):
        relays.destinations(CallPlan(2), _SERVER)


@pytest.mark.parametrize("is_phone", [True, False])
def test_voice_that_would_not_pass_the_relay_is_refused(is_phone: bool) -> None:
    right, wrong = [f"{_SERVER}:30000"], ["10.77.1.9:24002"]
    relays = _relays(right, wrong) if is_phone else _relays(wrong, right)
    with pytest.raises(StealtimeError, match=r"would go to 10.77.1.9:24002"):
        relays.destinations(CallPlan(1), _SERVER)


def test_an_answer_that_comes_again_counts_once_and_another_one_is_refused() -> None:
    answers = gather(
        [LoggedMessage("begun", "20000", "-", 3), _answered(20000, "a:1", 10), _answered(20000, "a:1", 20)]
    )
    assert answers.answer_times_ns == [7.0]
    with pytest.raises(StealtimeError, match="two different relays"):
        gather([_answered(20000, "a:1"), _answered(20000, "a:2")])


def test_a_call_that_hangs_up_after_the_last_word_was_up_long_enough() -> None:
    answers = gather([LoggedMessage("leaving", "20000", "-", 30), LoggedMessage("leaving", "20002", "-", 40)])
    assert (answers.left_before(30), answers.left_before(40)) == ([], [20000])


def _talk(sent: int, delays_ns: dict[int, int], silence_ns: int | None = None, **changed: Any) -> dict[str, Any]:
    """Give what one end tells: it sent so many, and heard packets with these delays, each a bucket of its own."""
    received = sum(delays_ns.values())
    total = {
        "received": received, "duplicated": 0, "reordered": 0, "late": 1, "streams_heard": int(received > 0),
        "delay_is": "one_way", "delay_ns": _quartiles(delays_ns), "jitter_max_ns": None,
        "delay_buckets_ns": {str(most): count for most, count in delays_ns.items()},
        "longest_silence": None
        if silence_ns is None
        else {"length_ns": silence_ns, "start_monotonic_ns": sent, "ended": True},
    }  # fmt: skip
    spoken = {"sent": sent, "streams": 1, "refused": 1, "lateness_ns": {"p99": sent}}
    return {"spoken": spoken, "heard": {"total": {**total, **changed}, "streams": []}, "reasons": [], "limits": []}


def _quartiles(delays_ns: dict[int, int]) -> dict[str, float] | None:
    found = spread_of([float(one) for one, count in delays_ns.items() for _ in range(count)])
    return None if found is None else found.model_dump()


def test_what_was_sent_is_the_speakers_to_say_in_each_direction() -> None:
    voice = voice_of(_talk(100, {}), {**_talk(40, {7: 90}), "reasons": ["late"]})
    assert (voice.streams, voice.heard, voice.sent, voice.received, voice.lost, voice.late) == (2, 1, 140, 90, 50, 2)
    assert [(one.towards, one.sent, one.lost) for one in voice.directions] == [("phones", 100, 10), ("callers", 40, 40)]
    assert (voice.refused, voice.sender_late_p99_ns, voice.invalid) == (2, 100, ["late"])


def test_delays_of_both_directions_are_put_together_packet_by_packet() -> None:
    voice = voice_of(_talk(4, {10: 3, 20: 3}), _talk(6, {1_000: 2}))
    assert voice.delay_ns is not None
    assert voice.delay_ns.model_dump() == {"min": 10, "q1": 10, "median": 20, "q3": 20, "max": 1_000}
    medians = [one.delay_ns.median for one in voice.directions if one.delay_ns is not None]
    assert medians == [1_000, 15]


def test_the_longest_silence_is_that_of_either_direction() -> None:
    ends = (_talk(4, {10: 4}, silence_ns=30), _talk(6, {10: 6}, silence_ns=20))
    for callers, phones in (ends, reversed(ends)):
        voice = voice_of(callers, phones)
        assert (voice.silence_ns, voice.silence_began_ns) == (30, 4)


def test_delays_that_are_not_one_way_are_refused() -> None:
    for ends in (
        (_talk(1, {1: 1}, delay_is="round_trip"), _talk(1, {1: 1})),
        (_talk(1, {}), _talk(1, {1: 1}, delay_is="variation")),
    ):
        with pytest.raises(StealtimeError, match=r"round_trip|variation"):
            voice_of(*ends)


def test_runs_from_before_phones_spoke_can_be_read() -> None:
    stored = _voice().model_dump()
    del stored["directions"]
    for stream in stored["each"]:
        del stream["towards"]
    voice = Voice.model_validate(stored)
    assert (voice.directions, [one.towards for one in voice.each]) == ([], ["phones"])
    result = Calls(dialogues=_dialogues(), voice=voice, server_cpu_ns=5, host_cpu_ns=10, elapsed_ns=100)
    assert CALL.value("phones_loss_percent", result) is None
    assert CALL.value("loss_percent", result) == 0


def test_each_direction_has_its_figures() -> None:
    voice = voice_of(_talk(100, {7: 38}), _talk(40, {9: 90}))
    result = Calls(dialogues=_dialogues(), voice=voice, server_cpu_ns=5, host_cpu_ns=10, elapsed_ns=100)
    names = ("phones_delay_ns", "callers_delay_ns", "phones_loss_percent", "callers_loss_percent")
    assert [CALL.value(name, result) for name in names] == [9, 7, 10, 5]


def test_a_silence_counts_as_the_gap_of_a_failover_only_where_it_holds_the_fault() -> None:
    assert _failover().gap_ns == 200 * _MS
    assert _failover(began_ns=1_200 * _MS).gap_ns is None
    assert _failover(began_ns=700 * _MS).gap_ns is None


def test_figures_put_repetitions_together() -> None:
    figures = _cell("net", [400_000.0, 600_000.0], lost=10).figures
    assert (figures.lost, figures.sent, figures.begun, figures.ended) == (20, 20_000, 4, 4)
    assert figures.delay_ns is not None
    assert (figures.delay_ns.min, figures.delay_ns.median, figures.delay_ns.max) == (200_000, 500_000, 1_200_000)
    assert figures.loss_percent is not None
    assert figures.loss_percent.median == pytest.approx(0.1)
    assert (figures.host_cpu_share, figures.server_cpu_share) == (0.1, 0.05)


_ALIKE = [500_000.0, 501_000.0, 499_000.0, 500_500.0]


def test_one_machine_is_recommended_where_all_bars_are_kept() -> None:
    found = recommend([_cell("no-net", _ALIKE), _cell("net+bypass", _ALIKE), _failed_over(4)])
    assert [one.verdict for one in found[0].judgements] == ["yes", "yes", "yes"]
    assert found[0].text.startswith("One machine in the mode net+bypass, a checkpoint every 100 ms")
    assert "10.0 % of a CPU of the host side" in found[0].text


@pytest.mark.parametrize(
    ("bypass", "failovers", "verdicts"),
    [
        (_cell("net+bypass", [2 * value for value in _ALIKE]), _failed_over(4), ["no", "yes", "yes"]),
        (_cell("net+bypass", _ALIKE, lost=1), _failed_over(4), ["yes", "no", "yes"]),
        (_cell("net+bypass", _ALIKE), _failed_over(1, lost=1), ["yes", "yes", "no"]),
        (_cell("net+bypass", _ALIKE), _failed_over(1, ended=1), ["yes", "yes", "no"]),
    ],
)
def test_two_machines_are_recommended_where_a_bar_is_broken(
    bypass: JudgedCalls, failovers: JudgedCalls, verdicts: list[str]
) -> None:
    found = recommend([_cell("no-net", _ALIKE), bypass, failovers])
    assert [one.verdict for one in found[0].judgements] == verdicts
    assert found[0].text.startswith("Signalling in the mode net and media in no-net")


def test_too_little_evidence_is_not_judged_and_says_why() -> None:
    found = recommend(
        [_cell("no-net", _ALIKE[:1], sent=500), _cell("net+bypass", _ALIKE[:1], sent=500), _failed_over(1)]
    )
    assert [one.verdict for one in found[0].judgements] == ["not judged"] * 3
    texts = " ".join(one.text for one in found[0].judgements)
    assert "fewer than 4 repetitions (1)" in texts
    assert "fewer than 10,000 packets in a mode (500)" in texts
    assert "fewer than 4 failovers" in texts
    assert found[0].text.startswith("No mode is recommended")


@pytest.mark.parametrize(("lost", "is_borne"), [(300, True), (301, False)])
def test_no_mode_is_recommended_for_a_load_that_the_server_does_not_bear(lost: int, is_borne: bool) -> None:
    cells = [_cell("no-net", _ALIKE, lost=lost), _cell("net+bypass", _ALIKE, lost=lost), _failed_over(4)]
    (found,) = recommend(cells)
    assert [one.verdict for one in found.judgements] == ["yes", "yes", "yes"]
    assert found.text.startswith("One machine in the mode net+bypass") == is_borne
    assert ("the server does not bear this load. Of 40,000 packets of voice 1,204 were lost" in found.text) != is_borne


def test_a_load_of_calls_that_is_not_borne_is_said_but_not_what_a_death_took() -> None:
    def calls(lost: int) -> Calls:
        return Calls(dialogues=_dialogues(), voice=_voice(lost=lost), server_cpu_ns=5, host_cpu_ns=10, elapsed_ns=100)

    assert limits([calls(300), calls(300)]) == []
    assert limits([calls(300), calls(303)]) == [
        "the load is above what the server bears: 603 of 20,000 packets of voice were lost, 3.0 % are the most"
    ]
    died = _failover()
    assert limits([died.model_copy(update={"voice": _voice(lost=9_000, silence_began_ns=990 * _MS)})]) == []


def test_one_guest_is_held_against_the_two_of_the_source_where_they_were_measured() -> None:
    both = [_cell("no-net", _ALIKE), _cell("net+bypass", _ALIKE), _failed_over(4)]
    two = _cell("net+no-net", _ALIKE, roles="apart")
    told = "in two guests: INVITE to 200 2.00 ms instead of 2.00 ms, host side 10.0 % instead of 10.0 %, server 5.0 %"
    assert told not in recommend(both)[0].text
    assert told in recommend([*both, two])[0].text
    # Guests that are apart are no evidence of one that does both.
    apart = [_cell("no-net", _ALIKE, roles="apart"), _cell("net+bypass", _ALIKE, roles="apart")]
    assert {one.verdict for one in recommend(apart)[0].judgements} == {"not judged"}


def test_nothing_is_recommended_without_a_protected_server() -> None:
    assert recommend([_cell("off", _ALIKE)]) == []


def test_boxes_stand_in_the_order_of_their_numbers() -> None:
    cells = [Drawn("net", _with(_cell("net", _ALIKE).figures, 10)), Drawn("no-net", _cell("no-net", _ALIKE).figures)]
    figure = delay_figure(cells)
    assert figure is not None
    assert [one.words for one in figure.groups] == ["1", "10"]
    for box in figure.boxes:
        places = [box.places[name] for name in ("max", "q3", "median", "q1", "min")]
        assert places == sorted(places)
    assert "net, 10 streams" in draw_boxes(figure)
    assert delay_figure([]) is None


def test_the_time_line_holds_the_gap_of_the_voice_from_the_fault_on() -> None:
    failover = _failed_over(1).figures.failover
    assert failover is not None
    assert (failover.gap_began_ns, failover.gap_ended_ns) == (-10 * _MS, 190 * _MS)
    drawn = draw_time_line(time_line("net+bypass", failover))
    assert drawn.index("no voice") < drawn.index("killed") < drawn.index("runs")
    assert "200 ms, from \N{MINUS SIGN}10.0 ms on" in drawn


def _with(figures: CallFigures, streams: int) -> CallFigures:
    return figures.model_copy(update={"streams": streams})


def test_a_call_that_was_ended_over_a_new_connection_is_kept_and_told() -> None:
    one = _failover()
    one = one.model_copy(update={"dialogues": _dialogues(ended=1, ended_anew=1, connections_lost=1)})
    figures = figures_of(CallLoad(streams=1, mode="no-net", transport="tcp-each"), [one])
    assert (figures.ended, figures.ended_anew, figures.cut) == (1, 1, 0)
    kept = CATALOGUE.probes["call-failover"].figures["calls_kept_percent"]
    assert kept.take is not None
    assert kept.take(one) == 100
    told = "1 of 2 calls could not be ended over their connection, and were over a new one"
    assert told in limits([one])
    assert not any("not kept" in text for text in limits([one]))


def test_calls_over_tcp_are_no_evidence_of_what_udp_keeps() -> None:
    cells = [_cell("net+bypass", [5e5] * 4), _cell("no-net", [5e5] * 4), _failed_over(4)]
    over_tcp = _failed_over(1, ended=0)
    over_tcp = JudgedCalls(over_tcp.platform, over_tcp.figures.model_copy(update={"transport": "tcp-one"}))
    assert recommend([*cells, over_tcp]) == recommend(cells)
    assert recommend([*cells, _failed_over(1, ended=0)]) != recommend(cells)


def test_voice_that_was_sent_late_is_told_once_with_the_latest() -> None:
    def late(ms: float, more: str = "") -> Calls:
        texts = [f"one packet in a hundred was sent {ms} ms too late or later", *filter(None, [more])]
        voice = _voice(sender_late_p99_ns=round(ms * _MS), limits=texts)
        return Calls(dialogues=_dialogues(), voice=voice, server_cpu_ns=5, host_cpu_ns=10, elapsed_ns=100)

    assert limits([late(0.566), late(1.029, "something else"), late(0.546)]) == [
        "something else",
        "one packet in a hundred was sent up to 1.03 ms too late or later",
    ]
