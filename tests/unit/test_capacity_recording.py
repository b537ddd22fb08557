"""The counters of a host that are recorded beside something else: kept as rows, put together again, judged."""

from pathlib import Path

import pytest
from fabricated_guests import FabricatedProc, FabricatedThread
from hypothesis import given
from hypothesis import strategies as st
from synthetic_use import guest, use

from stealtime.capacity.judgement import judge
from stealtime.capacity.recorder import Recorder, arrow_schema, read_rows, write_stream
from stealtime.capacity.recording import HOST, Row, rows_of, uses_of, why_ended
from stealtime.capacity.rules import load_rules
from stealtime.capacity.use import Figure, GuestUse, Use, ViewUse
from stealtime.store.tables import write_parquet
from stealtime.vocabulary.readings import Absent

ABSENT = Absent(absent="withheld")
FIGURES: st.SearchStrategy[Figure] = st.floats(0.0, 100.0) | st.just(ABSENT)


@st.composite
def guest_uses(draw: st.DrawFn, name: str) -> GuestUse:
    vcpus = draw(st.integers(0, 2))
    one = guest(
        name,
        run=[draw(st.floats(0.0, 100.0)) for _ in range(vcpus)],
        wait=[draw(st.floats(0.0, 100.0)) for _ in range(vcpus)],
        wait_per_dispatch_ns=draw(FIGURES),
        throttled=draw(FIGURES),
        quota_cpus=draw(st.none() | st.floats(0.1, 4.0)),
        unreadable=draw(st.none() | st.just(ABSENT)),
    )
    view = draw(st.none() | st.just(ABSENT) | st.builds(ViewUse, st.floats(0.0, 9.0), st.just(1), FIGURES, FIGURES))
    return one._replace(view=view, io=draw(st.just(ABSENT) | st.just(one.io)))


@st.composite
def host_uses(draw: st.DrawFn) -> Use:
    made = use(
        [draw(guest_uses(name)) for name in draw(st.sets(st.sampled_from(["machine", "neighbour 1"])))],
        busy=[draw(FIGURES) for _ in range(2)],
        steal=draw(FIGURES),
        memory=draw(FIGURES),
        memory_pressure=draw(FIGURES),
    )
    if draw(st.booleans()):
        return made
    return Use(1.0, ABSENT, made.memory_available_percent, made.pressure_percent, made.guests)


def comparable(one: Use) -> object:
    """Give all that is kept of a use."""
    guests = {each.guest.name: each._replace(guest=None, allowed_cpus=None) for each in one.guests.values()}  # type: ignore[arg-type]
    return (one.elapsed_s, one.cpus, one.memory_available_percent, one.pressure_percent, guests)


@given(st.lists(host_uses(), min_size=1, max_size=3))
def test_what_is_kept_comes_back_as_it_was(uses: list[Use]) -> None:
    rows = [row for number, one in enumerate(uses, 1) for row in rows_of(one, number * 10**9, lambda one: one.name)]
    (back,) = uses_of([rows])
    assert [one.at_s for one in back] == list(range(1, len(uses) + 1))
    for first, second in zip(uses, back, strict=True):
        assert comparable(first) == comparable(second.use)


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (use([guest("machine", run=[50.0], wait=[50.0])], busy=(100.0, 100.0)), "over-committed host"),
        (use([guest("machine", run=[15.0])]), "over-provisioned host"),
        (use([guest("machine", run=[70.0], wait=[2.0])], busy=(75.0, 60.0)), "efficiently provisioned"),
        (use([guest("machine", run=[99.0], queue=9.0)], busy=(99.0, 99.0)), "efficiently provisioned"),
        (use([guest("machine", run=[50.0], wait=[50.0])], steal=20.0), "not judged"),
    ],
)
def test_what_was_kept_is_judged_as_what_was_read(one: Use, verdict: str) -> None:
    rows = [row for second in range(1, 13) for row in rows_of(one, second * 10**9, lambda one: one.name)]
    # Twice, as of two repetitions: the guest has another process each time, and is the same.
    kept = [each.use for recording in uses_of([rows, rows]) for each in recording]
    read, guests = judge([one] * 24, load_rules())
    again, guests_again = judge(kept, load_rules())
    assert read.verdict == again.verdict == verdict
    assert [each.verdict for each in guests] == [each.verdict for each in guests_again]
    assert [each.samples for each in guests_again] == [24]


@pytest.fixture
def proc(tmp_path: Path) -> FabricatedProc:
    made = FabricatedProc(tmp_path / "proc", cpus=2)
    argv = ["/usr/bin/qemu-system-x86_64", "-name", "guest=web,debug-threads=on"]
    made.add_process(1000, argv, [FabricatedThread("main"), FabricatedThread("CPU 0/KVM")])
    return made


def test_guests_get_their_names_by_their_threads_and_rows_survive_the_disk(
    proc: FabricatedProc, tmp_path: Path
) -> None:
    recorder = Recorder(lambda one, threads: f"{one.name} of {len(threads)}", 1.0, proc.root)
    for ran_ns in (0, 300_000_000, 900_000_000):
        proc.write_thread(1000, 1001, FabricatedThread("CPU 0/KVM", run_ns=ran_ns + 1, wait_ns=ran_ns, dispatches=7))
        proc.pass_time([30.0, 10.0])
        recorder.read()
    rows = recorder.rows()
    assert {row.subject for row in rows} == {HOST, "web of 2"}
    busy = [row.value for row in rows if (row.part, row.figure) == ("CPU 0", "cpu_busy_percent")]
    assert busy == pytest.approx([30.0, 30.0])
    ((first, second),) = uses_of([rows])
    assert (first.at_s, second.at_s) == (rows[0].at_ns / 1e9, rows[-1].at_ns / 1e9)
    runs = [
        one.use.elapsed_s * machine.vcpus[0].run_percent
        for one in (first, second)
        for machine in one.use.guests.values()
    ]
    assert runs == pytest.approx([30.0, 60.0])
    write_stream(rows, tmp_path / "rows.arrows")
    write_parquet(tmp_path / "rows.arrows", tmp_path / "rows.parquet", {})
    assert read_rows(tmp_path / "rows.parquet") == rows
    assert arrow_schema().names == list(Row._fields)


def test_a_host_whose_counters_cannot_be_read_says_so_and_ends_nothing(tmp_path: Path) -> None:
    recorder = Recorder(lambda one, _: one.name, 3600.0, tmp_path / "none")
    recorder.begin()
    rows = recorder.rows()
    assert "the counters cannot be read" in (why_ended(rows) or "")
    assert uses_of([rows]) == [[]]
    assert why_ended([]) is None
