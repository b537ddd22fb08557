"""The answer of each study: one sentence before everything else, whose figures are those of tables and document."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import stretch_cells
import telephony_cells
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from rich.console import Console
from telephony_cells import GUEST, MS
from test_telephony_calls import _failover as call_failover

from stealtime.report.answer import LINES_MAX, Answer, QuotedFigure, Quotes, bare_ratio
from stealtime.report.answers import with_answers
from stealtime.report.cells.model import CellFigures
from stealtime.report.studies import studies
from stealtime.report.summary import RunSummary
from stealtime.store.model import Cell, TrialRecord
from stealtime.store.run import Trial
from stealtime.studies.protection.results import Failover, RoundTrips
from stealtime.studies.protection.study import STUDY as PROTECTION
from stealtime.studies.realtime.analysis.model import RealTimeCell
from stealtime.studies.realtime.analysis.shares import clustered_share
from stealtime.studies.stretch.analysis.model import StretchCell
from stealtime.studies.stretch.analysis.relate import relate
from stealtime.studies.stretch.rows import works_of

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def summary_of(cells: Sequence[CellFigures], **changes: Any) -> RunSummary:
    values: dict[str, Any] = {"run_id": "r", "created_at": datetime.now(UTC), "campaign": "mine", "host": {}}
    return with_answers(RunSummary(**{**values, **changes}, cells=list(cells)))


def answer_of(cells: Sequence[CellFigures], **changes: Any) -> Answer:
    (answer,) = summary_of(cells, **changes).answers
    return answer


def cell_of(document: dict[str, Any], one: QuotedFigure) -> dict[str, Any]:
    """Give the cell of a document of a run that a figure is quoted of."""
    names = ("platform", "scenario", "probe", "parameters", "traced")
    (cell,) = [cell for cell in document["cells"] if all(cell[name] == getattr(one, name) for name in names)]
    return dict(cell)


def at(cell: dict[str, Any], path: str) -> Any:
    """Follow the name of a figure into a cell; lists of figures go by their names."""
    found: Any = cell
    for name in path.split("."):
        found = next(one for one in found if one["name"] == name) if isinstance(found, list) else found[name]
    return found


def unquoted(answer: Answer, known: str) -> list[str]:
    """Give the numbers of the sentence and its lines that are neither quoted nor stand in what is known."""
    lines = [line for line in (answer.sentence, *answer.lines) if line not in known]
    text = "\n".join(lines)
    for one in answer.figures:
        for end in (one.words, *(NUMBER.findall(one.words))):
            text = text.replace(end, "")
    return [number for number in NUMBER.findall(text) if number not in known]


def shown(summary: RunSummary) -> str:
    """Print the tables of the one study of a run, wide enough for all of them."""
    (study,) = [study for study in studies() if study.own(summary)]
    console = Console(width=600, file=StringIO())
    console.print(study.tables(summary))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def assert_quoted_from_the_document(summary: RunSummary, *computed: str) -> None:
    """See that each figure that is quoted has its value at its name in the document, but for computed ones."""
    document = summary.model_dump(mode="json")
    for answer in summary.answers:
        for one in answer.figures:
            if not one.name.startswith(computed):
                assert at(cell_of(document, one), one.name) == one.value, one.name
            assert one.words in "\n".join([answer.sentence, *answer.lines])


def test_an_answer_is_trusted_if_and_only_if_nothing_speaks_against_it() -> None:
    sure = Answer.of("echo", "nobody lost anything", quotes=Quotes(), hint="do nothing")
    assert (sure.trusted, sure.hint, sure.told) == (True, None, "nobody lost anything; may be trusted.")
    unsure = Answer.of("echo", "all is lost", quotes=Quotes(), because=["it was dark", "late"], hint="light a lamp")
    assert unsure.told == "all is lost; not to be trusted, because it was dark (and 1 more)."
    assert (unsure.trusted, unsure.hint) == (False, "light a lamp")
    with pytest.raises(ValidationError, match="nothing speaks against it"):
        Answer(study="echo", sentence="s", is_judged=True, trusted=True, because=["no"])
    nothing = Answer.not_judged("echo", ["nobody called"], "call")
    assert nothing.told == "not judged, because nobody called."


def test_no_more_than_five_lines_stand_below_the_sentence() -> None:
    quotes = Quotes()
    (cell,) = stretch_cells.related()[:1]
    lines = [quotes.figure(cell, "n", number, f"line {number}") for number in range(9)]
    answer = Answer.of("echo", "s", quotes=quotes, lines=lines)
    assert answer.lines == ["line 0", "line 1", "line 2", "line 3", "5 more: see the tables"]
    assert len(answer.lines) == LINES_MAX
    assert [one.words for one in answer.figures] == lines[:4], "what is left out is quoted nowhere"


def test_stretch_answers_with_the_most_stretched_machine_and_where_its_seconds_went() -> None:
    summary = summary_of(stretch_cells.provisioned())
    (answer,) = summary.answers
    assert answer.trusted, answer.because
    assert answer.sentence == (
        "uml in overcommitted, beside 3 busy: the same work takes 4.17 times as long (4.11 to 4.23) as native in "
        "whole; 65.8 % of the lost seconds are waiting for a CPU of the host"
    )
    document = summary.model_dump(mode="json")
    for one in answer.figures:
        cell = cell_of(document, one)
        if one.name.startswith("lost_percent."):
            part = cell["lost"]["parts_s"][one.name.removeprefix("lost_percent.")]
            lost_s = cell["lost"]["elapsed_s"] - cell["lost"]["base_elapsed_s"]
            assert one.value == pytest.approx(100.0 * part / lost_s)
            assert one.words == f"{one.value:.1f} %"
            continue
        against = cell[one.name.partition(".")[0]]
        assert (one.value, one.low, one.high) == (against["ratio"], against["low"], against["high"])
    works = works_of(stretch_cells.provisioned())
    tables = [told for work in works for told in (work.stretch, work.predictions, work.provisioning)]
    shown = "\n".join(part for told in tables for row in (*told.table.rows, told.sentences) for part in row)
    assert unquoted(answer, shown) == []
    for one in answer.figures:
        if one.low is not None:
            number = NUMBER.findall(one.words)[0]
            assert f"{number}\N{MULTIPLICATION SIGN} (" in shown, "the table has the same words"


def test_stretch_says_when_nothing_is_shown_and_when_nothing_can_be_said() -> None:
    cell = stretch_cells.cell
    base = cell("native", "whole", [0.5, 0.51, 0.5, 0.505], vcpus=1)
    same = answer_of(relate([base, cell("uml", "whole", [0.5, 0.51, 0.505, 0.5])]))
    assert same.sentence.endswith("as native in whole, so no stretch is shown")
    once = answer_of(relate([cell("native", "whole", [0.5]), cell("uml", "whole", [1.0])]))
    assert (once.trusted, once.because) == (False, ["one side has 1 valid repetition, 4 are needed"])
    assert "2.00 times as long (no interval)" in once.sentence
    assert once.hint == "stealtime run FILE.toml --repetitions 4"
    lonely = answer_of(relate([cell("uml", "whole", [1.0] * 4)]))
    assert not lonely.is_judged
    assert lonely.told == "not judged, because one machine was measured."
    assert "-P native" in str(lonely.hint)
    broken = cell("uml", "whole", [1.0] * 4).model_copy(update={"valid": False, "reasons": ["its clock stood still"]})
    assert "its clock stood still" in answer_of(relate([base, broken])).told


def test_a_run_that_misses_trials_is_not_trusted() -> None:
    answer = answer_of(stretch_cells.provisioned(), state="interrupted", missing_trials=3)
    assert answer.because == ["3 planned trials were not measured"]
    assert answer.hint == "measure what is missing: stealtime run --resume r"


def realtime_cell(platform: str, missed: list[int], released: int, latest_ns: float) -> RealTimeCell:
    tail = {"count": released, "p50": 1e3, "p99": 2e3, "p999": 3e3, "max": latest_ns}
    one: dict[str, Any] = {
        "seed": 1, "utilization": 0.5, "unstarted": 0, "overruns": 0, "urgent_latency_ns": tail,
        "start_latency_ns": None, "response_share": None, "conversion_error_ns": 0.0, "tasks": [],
    }  # fmt: skip
    repetitions = [
        {**one, "repetition": number, "released": released, "finished": released, "missed": count}
        for number, count in enumerate(missed, 1)
    ]
    return RealTimeCell.model_validate(
        {
            "platform": platform, "scenario": "alone", "probe": "rtload",
            "parameters": {"tasks_per_cpu": 10, "law": "light-uniform", "policy": "fifo"}, "valid": True,
            "reasons": [], "limits": [], "policy": "fifo", "polluters": 0, "repetitions": repetitions,
            "released": released * len(missed), "missed": sum(missed), "sets_missed": sum(map(bool, missed)),
            "missed_share": clustered_share(missed, [released] * len(missed)), "sets_missed_share": None,
            "urgent_latency_ns": tail, "start_latency_ns": None, "response_share": None,
        }
    )  # fmt: skip


def test_realtime_answers_with_missed_deadlines_and_the_latest_start() -> None:
    cells = [realtime_cell("native", [0] * 4, 1000, 58e3), realtime_cell("uml", [9, 12, 14, 5], 1000, 312e3)]
    summary = summary_of(cells)
    (answer,) = summary.answers
    assert answer.sentence == (
        "uml (10 tasks) misses 1.0 % (0.4 % to 1.6 %) of its deadlines (40 of 4,000 jobs), native 0.0 % (0 of 4,000)"
    )
    assert answer.lines == ["its most urgent task begins up to 312.0 µs late, natively 58.00 µs"]
    assert answer.trusted
    assert_quoted_from_the_document(summary)
    table = shown(summary)
    assert "1.0 % (0.4 % to 1.6 %)" in table
    assert "312.0 µs" in table
    assert unquoted(answer, "10 tasks 0.4 % 1.6 %") == []
    once = answer_of([realtime_cell("native", [0], 1000, 58e3), realtime_cell("uml", [9], 1000, 312e3)])
    assert once.because == ["1 repetition of its tasks tells no interval"]


NET = {"mode": "net", "interval_ns": 100 * MS}


def telephony_run() -> list[CellFigures]:
    """Four failovers of each kind, and registrations that wait 56 ms longer under protection than without."""
    times = telephony_cells.registrations().response
    assert times is not None

    def registered(mode: dict[str, Any], median_ns: int) -> CellFigures:
        results = [
            telephony_cells.registrations(
                response=times.model_copy(update={"median_ns": median_ns + number, "q3_ns": 80 * MS})
            )
            for number in range(4)
        ]
        return telephony_cells.cell_of(GUEST, "register", {**mode, "transport": "udp", "rate_per_s": 200}, results)

    fell_silent = [call_failover(began_ns=990 * MS) for _ in range(4)]
    return [
        registered({"mode": "off"}, 2 * MS),
        registered(NET, 58 * MS),
        telephony_cells.cell_of(
            GUEST,
            "register-failover",
            {**NET, "transport": "udp", "rate_per_s": 200},
            [telephony_cells.failover(sent=100, acknowledged=100, silence_ns=(200 + n) * MS) for n in range(4)],
        ),
        telephony_cells.cell_of(GUEST, "call-failover", {**NET, "streams": 2, "roles": "together"}, fell_silent),
    ]


def test_telephony_answers_with_what_phones_see_when_the_host_dies() -> None:
    summary = summary_of(telephony_run(), campaign="telephony2011")
    (answer,) = summary.answers
    assert answer.sentence == (
        "Host killed (qemu-tcg-paravirt net every 100ms): 100 % of calls kept, 0 of 400 registrations lost, phones "
        "heard nothing for 200 ms (200 ms to 200 ms), no phone was answered for 202 ms (199 ms to 204 ms); a "
        "registration waits 56.0 ms longer: 58.0 ms (58.0 ms to 58.0 ms) instead of 2.00 ms (2.00 ms to 2.00 ms)"
    )
    assert answer.trusted, answer.because
    assert_quoted_from_the_document(summary, "waits_longer_ns")
    document = summary.model_dump(mode="json")
    (longer,) = [one for one in answer.figures if one.name == "waits_longer_ns"]
    own = at(cell_of(document, longer), "figures.median_ns.p50")
    base = next(cell for cell in document["cells"] if cell["parameters"]["mode"] == "off")
    assert longer.value == own - at(base, "figures.median_ns.p50")
    table = shown(summary)
    for one in answer.figures:
        if one is not longer:
            assert one.words in table, f"the table has {one.name} in the same words"


def test_telephony_says_what_was_lost_first_of_all_kinds_that_lost_something() -> None:
    cells = telephony_cells.some_cells()
    answer = answer_of(cells)
    assert answer.sentence.startswith("Host killed (qemu-tcg-paravirt net every 100ms): 0 of 400 registrations lost")
    assert "no-net every 100ms): 6 of 400 registrations lost, no phone was answered any more" in answer.lines[0]
    assert answer.because == ["there are fewer than 4 repetitions (1)"]
    early = [telephony_cells.failover(silence_ns=None, fault_to_answer_ns=None)]
    said = answer_of([telephony_cells.cell_of(GUEST, "register-failover", {"mode": "net"}, early)])
    assert "all phones had registered before the guest ran again" in " ".join([said.sentence, *said.lines])
    quiet = answer_of([cell for cell in cells if cell.probe == "registration-rate"])
    assert quiet.sentence == "the most registrations a second without a failure: native 12,800/s"


def test_telephony_says_what_else_was_lost_and_how_it_went_on_without() -> None:
    def said(probe: str, victim: str, result: Any) -> str:
        return answer_of([telephony_cells.cell_of(GUEST, probe, {**NET, "victim": victim}, [result])]).sentence

    assert said("register-failover", "standby", telephony_cells.standby_loss()) == (
        "Host of the standby lost (qemu-tcg-paravirt net every 100ms, its standby): 0 of 400 registrations lost, no "
        "phone was answered for 150 ms, the server was not protected for 900 ms"
    )
    assert said("two-stage-failover", "front", telephony_cells.front_loss()) == (
        "A front lost (qemu-tcg-paravirt net every 100ms, a front): 0 of 400 registrations lost, no phone of it was "
        "answered for 120 ms, 110 of the 220 phones of this front turned to the other one, after 560 ms at most"
    )
    early = telephony_cells.standby_loss(silence_ns=None, fault_to_answer_ns=None)
    assert "all phones had registered before the fault" in said("register-failover", "standby", early)
    all_at_once = telephony_cells.two_stage_failover(victim="all-primaries", others_over_time=None)
    assert said("two-stage-failover", "all-primaries", all_at_once).startswith("Hosts of all primaries lost at once (")


def protection_cell(probe: str, parameters: dict[str, Any], results: list[Any]) -> CellFigures:
    cell = Cell(platform=GUEST, scenario="protected", probe=probe, parameters=parameters, traced=False)
    records = [
        TrialRecord(
            cell=cell,
            repetition=number,
            host="local",
            started_at=datetime(2026, 11, 25, tzinfo=UTC),
            elapsed_s=1.0,
            state="measured",
            result=one,
        )
        for number, one in enumerate(results, 1)
    ]
    summarized: CellFigures = PROTECTION.summarize_cell([Trial(Path("nowhere"), record) for record in records])
    return summarized


def trips(median_ns: int) -> list[RoundTrips]:
    return [
        RoundTrips(
            requests=101, acknowledged=100, violations={}, checkpoints=None, tcp_p50_ns=median_ns + 1000 * number,
            tcp_p99_ns=2 * median_ns, udp_p50_ns=median_ns, udp_p99_ns=2 * median_ns,
        )
        for number in range(4)
    ]  # fmt: skip


def failovers(**changes: Any) -> list[Failover]:
    values: dict[str, Any] = {
        "requests": 51, "acknowledged": 50, "violations": {}, "checkpoints": None, "host": "a",
        "silence_udp_ns": 200 * MS, "fault_to_running_ns": 80 * MS, "decision_to_running_ns": 9 * MS,
        "tcp_lived": True, "pages_wrong": 0,
    }  # fmt: skip
    return [Failover(**{**values, **changes}, silence_tcp_ns=(300 + number) * MS) for number in range(1, 5)]


def test_protection_answers_with_what_clients_see_and_what_a_round_trip_costs() -> None:
    killed = protection_cell("failover", {**NET, "fault": "killed"}, failovers())
    silent = protection_cell("failover", {**NET, "fault": "silent"}, failovers(violations={"forgotten": 1}))
    costs = [
        protection_cell("roundtrip", NET, trips(56 * MS)),
        protection_cell("roundtrip", {"mode": "off"}, trips(MS)),
    ]
    summary = summary_of([killed, *costs], campaign="protection")
    (answer,) = summary.answers
    assert answer.sentence == (
        "Host killed (qemu-tcg-paravirt, net every 100ms): 0 of 200 acknowledged values were lost or wrong, "
        "0 of 4 TCP connections broke, clients heard nothing for 302 ms (300 ms to 305 ms) over TCP, "
        "200 ms (200 ms to 200 ms) over UDP; a round trip over TCP takes 56.0 ms (56.0 ms to 56.0 ms), "
        "unprotected 1.00 ms (999 µs to 1.00 ms): 55.9 times as long "
        "(55.8 to 56.0)"
    )
    assert answer.trusted
    assert_quoted_from_the_document(summary, "wrong", "ratio.")
    table = shown(summary)
    for one in answer.figures:
        number = NUMBER.findall(one.words)[0]
        assert number in table
    (worse,) = summary_of([killed, silent, *costs]).answers
    assert worse.sentence.startswith(
        "Host fallen silent (qemu-tcg-paravirt, net every 100ms): 4 of 200 acknowledged values"
    )


SECONDS = st.lists(st.floats(min_value=0.01, max_value=1e4), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(native=SECONDS, guests=st.lists(SECONDS, max_size=7))
def test_whatever_work_takes_the_answer_quotes_the_document(native: list[float], guests: list[list[float]]) -> None:
    cells = [stretch_cells.cell("native", "alone", native)]
    cells += [stretch_cells.cell("uml", f"s{letter}", one) for letter, one in zip("abcdefg", guests, strict=False)]
    summary = summary_of(relate(cells))
    (answer,) = summary.answers
    assert_quoted_from_the_document(summary, "lost_percent.")
    assert answer.is_judged is bool(guests)
    stretched = [cell.against_native.ratio for cell in summary.cells if cell.against_native]  # type: ignore[attr-defined]
    if answer.figures:
        assert answer.figures[0].value == max(stretched), "the sentence tells the worst"
        sure = len(native) >= 4 and next(
            len(one) >= 4 for one, ratio in zip(guests, stretched, strict=True) if ratio == max(stretched)
        )
        assert answer.trusted is sure
    ends = [number for one in answer.figures if one.low is not None for number in _ends(one)]
    below = (text for work in works_of(summary.cells_of(StretchCell)) for text in work.predictions.sentences)
    assert set(unquoted(answer, "\n".join(["95 4", *below]))) <= set(ends)


def _ends(one: QuotedFigure) -> list[str]:
    return NUMBER.findall(f"{bare_ratio(one.low or 0.0)} {bare_ratio(one.high or 0.0)}")


@settings(max_examples=40, deadline=None)
@given(
    native=st.lists(st.integers(0, 1000), min_size=1, max_size=5),
    guest=st.lists(st.integers(0, 1000), min_size=1, max_size=5),
    latest_ns=st.floats(1.0, 1e10),
)
def test_whatever_deadlines_are_missed_the_answer_quotes_the_document(
    native: list[int], guest: list[int], latest_ns: float
) -> None:
    summary = summary_of([realtime_cell("native", native, 1000, 9e3), realtime_cell("uml", guest, 1000, latest_ns)])
    (answer,) = summary.answers
    assert_quoted_from_the_document(summary)
    shares = [one.value for one in answer.figures if one.name == "missed_share.share"]
    assert shares[:2] == [sum(guest) / (1000 * len(guest)), sum(native) / (1000 * len(native))]
    assert answer.trusted is (min(len(native), len(guest)) >= 4)


@settings(max_examples=40, deadline=None)
@given(silences=st.lists(st.integers(1, 10**11), min_size=1, max_size=6), lost=st.integers(0, 9))
def test_whatever_phones_see_the_answer_quotes_the_document(silences: list[int], lost: int) -> None:
    results = [telephony_cells.failover(silence_ns=one, lost=lost, lost_users=["a"] * lost) for one in silences]
    parameters = {**NET, "transport": "udp", "rate_per_s": 200}
    summary = summary_of([telephony_cells.cell_of(GUEST, "register-failover", parameters, results)])
    (answer,) = summary.answers
    assert_quoted_from_the_document(summary)
    figures = {one.name: one.value for one in answer.figures}
    assert figures["counts.lost"] == lost * len(silences)
    assert figures["counts.acknowledged"] == 400 * len(silences)
    assert answer.trusted is (len(silences) >= 4)
