"""Two runs on one machine do the same work, so that they can be compared."""

from pathlib import Path

import pytest
from test_runner import CAMPAIGN, manifest

from stealtime.campaigns.file import read_campaign
from stealtime.campaigns.loops import choose_loop, earlier_loops, loops_of
from stealtime.store.model import LoopRecord
from stealtime.store.run import Run
from stealtime.store.writer import RunWriter
from stealtime.vocabulary.errors import UsageError

LOOP_NS = 68_000


def loop(iterations: int, loop_ns: int = LOOP_NS) -> LoopRecord:
    return LoopRecord(loop_ns=loop_ns, iterations=iterations, floor_ns=float(loop_ns))


def write_run(folder: Path, run_id: str, *loops: LoopRecord) -> Run:
    document = manifest(read_campaign(CAMPAIGN, "test")).model_copy(update={"run_id": run_id, "loops": list(loops)})
    writer = RunWriter.create(folder, document)
    writer.close()
    return Run.open(writer.folder)


def test_the_newest_run_gives_the_loop_and_a_damaged_one_none(tmp_path: Path) -> None:
    write_run(tmp_path, "20261121T000000Z-a-0001", loop(27_000), loop(4_000, 10_000))
    write_run(tmp_path, "20261121T000001Z-a-0001", loop(27_100))
    damaged = write_run(tmp_path, "20261121T000002Z-a-0001", loop(1))
    (damaged.folder / "manifest.json").write_text("{")
    found = earlier_loops(tmp_path)
    assert {length: one.iterations for length, one in found.items()} == {LOOP_NS: 27_100, 10_000: 4_000}
    assert found[LOOP_NS].taken_from == "20261121T000001Z-a-0001"


@pytest.mark.parametrize(("calibrated", "chosen"), [(27_500, 27_000), (26_000, 27_000), (30_000, 30_000)])
def test_an_earlier_loop_is_taken_unless_the_machine_has_another_speed(calibrated: int, chosen: int) -> None:
    assert choose_loop(loop(calibrated), {LOOP_NS: loop(27_000)}).iterations == chosen
    assert choose_loop(loop(calibrated), {}).iterations == calibrated


def test_a_loop_that_the_named_run_has_not_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path, "20261121T000000Z-a-0001", loop(27_000))
    assert [one.iterations for one in loops_of(run, {LOOP_NS})] == [27_000]
    with pytest.raises(UsageError, match="no loop of 10us"):
        loops_of(run, {LOOP_NS, 10_000})
