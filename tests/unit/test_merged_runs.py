"""Runs of several hosts as one: nothing is lost or counted twice, and what is not whole is said."""

import json
import shutil
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from simulated_fleet import SimulatedHost, SimulatedRun, write_run

from stealtime.cli import main
from stealtime.merging.comparison import compare_hosts
from stealtime.merging.document import read_merged
from stealtime.merging.merging import Merged, merge
from stealtime.merging.openmetrics import metric_lines
from stealtime.merging.pooling import pools_of_rows, read_pools
from stealtime.merging.tables import tables_of
from stealtime.store.counts import merge_counts, write_table
from stealtime.store.run import Run
from stealtime.vocabulary.errors import StealtimeError, UsageError


def _host(folder: Path, name: str, seed: int = 1, **changes: Any) -> Path:
    return write_run(folder, SimulatedRun(SimulatedHost(name), repetitions=2, **changes), np.random.default_rng(seed))


def _merge(output: Path, *folders: Path) -> Merged:
    return merge([Run.open(folder) for folder in folders], output)


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run a command and give its exit code."""

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["stealtime", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    return run


def _change(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _as_shards(whole: Path, count: int, target: Path) -> list[Path]:
    """Divide the trials of a run into as many shards; some may be empty."""
    shards = []
    for index in range(1, count + 1):
        folder = target / f"shard{index}"
        (folder / "cells").mkdir(parents=True)
        for number, trial in enumerate(sorted((whole / "cells").iterdir())):
            if number % count == index - 1:
                shutil.copytree(trial, folder / "cells" / trial.name)
        shutil.copy(whole / "manifest.json", folder / "manifest.json")
        spread = {"kind": "shard", "index": index, "count": count}
        identity = {"name": f"h{index}", "id": f"given:h{index}", "source": "given"}
        _change(folder, run_id=f"shard-{index}", spread=spread, identity=identity, planned=[])
        shards.append(folder)
    return shards


def test_a_hundred_shards_are_the_whole_bit_for_bit(tmp_path: Path) -> None:
    whole = _host(tmp_path, "whole", cells=3)
    merged = _merge(tmp_path / "merged", *_as_shards(whole, 100, tmp_path / "shards"))
    assert merged.remarks == ()
    for trial in sorted((whole / "cells").iterdir()):
        for name in ("counts.parquet", "longest.parquet", "envelope.parquet"):
            there = merged.folder / "cells" / trial.name / name
            assert there.read_bytes() == (trial / name).read_bytes()
    parts, all_of_it = tables_of(Run.open(merged.folder)), tables_of(Run.open(whole))
    ours, theirs = merge_counts(parts.counts.values()), merge_counts(all_of_it.counts.values())
    assert ours.duration.tobytes() == theirs.duration.tobytes()
    assert ours.count.tobytes() == theirs.count.tobytes()


def test_hosts_are_pooled_and_their_range_is_told(tmp_path: Path) -> None:
    hosts = [_host(tmp_path, f"h{number}", number) for number in range(4)]
    slow = write_run(
        tmp_path, SimulatedRun(SimulatedHost("slow", slower=(3, 2)), repetitions=2), np.random.default_rng(9)
    )
    merged = _merge(tmp_path / "merged", *hosts, slow)
    document = read_merged(Run.open(merged.folder))
    (cell,) = document.cells
    assert (cell.hosts, cell.trials) == (["h0", "h1", "h2", "h3", "slow"], 10)
    median = next(one for one in cell.figures if one.name == "p50_ns")
    assert median.largest_host == "slow"
    assert median.pooled_ns is not None
    assert median.smallest_ns <= median.pooled_ns < median.largest_ns
    assert median.low_ns is not None
    assert median.because is None
    assert cell.longest is not None
    assert cell.longest.watched_s == pytest.approx(10 * 20, rel=0.2)
    assert cell.longest.host in cell.hosts
    assert len(list((merged.folder / "cells").iterdir())) == 10
    origins = [json.loads((path / "trial.json").read_text()) for path in (merged.folder / "cells").iterdir()]
    assert len({(one["origin"]["run_id"], one["origin"]["repetition"]) for one in origins}) == 10
    tables = tables_of(Run.open(merged.folder))
    of_slow = sum(row.samples or 0 for row in tables.rows if row.host == "slow")
    text = "\n".join(metric_lines(Run.open(merged.folder), tables))
    assert f'host="slow",platform="uml",scenario="alone",measurement="tick-68us",le="+Inf"}} {of_slow}' in text


def test_the_same_hosts_are_each_compared_with_themselves(tmp_path: Path) -> None:
    weeks = []
    for week, slower in enumerate(((1, 1), (11, 10))):
        at = SimulatedRun(SimulatedHost("x")).at + timedelta(days=7 * week)
        runs = [
            write_run(
                tmp_path / str(week),
                SimulatedRun(SimulatedHost(f"h{number}", slower), at, 2),
                np.random.default_rng(10 * week + number),
            )
            for number in range(6)
        ]
        weeks.append(Run.open(_merge(tmp_path / f"merged{week}", *runs).folder))
    compared = {one.figure: one for one in compare_hosts(*weeks).figures}
    assert compared["p50"].paired
    assert compared["p50"].verdict == "higher"
    assert compared["p50"].ratio == pytest.approx(1.1, rel=0.03)
    assert compare_hosts(weeks[0], weeks[0]).figures[0].verdict == "no difference shown"


def test_a_shard_twice_or_missing_is_said(tmp_path: Path, stealtime: Callable[..., int]) -> None:
    shards = _as_shards(_host(tmp_path, "whole", cells=2), 3, tmp_path / "shards")
    again = tmp_path / "again"
    shutil.copytree(shards[0], again)
    _change(again, run_id="again")
    merged = _merge(tmp_path / "merged", shards[0], again, shards[1], shards[1])
    told = " ".join(merged.remarks)
    assert "shard 1/3 is there twice" in told
    assert "of 3 shards 1 is missing: 3" in told
    assert "shard-2 was given twice and counts once" in told
    assert stealtime("merge", *map(str, shards[:2]), "-o", str(tmp_path / "other")) == 4


def test_a_merged_run_is_merged_again_with_what_came_late(tmp_path: Path) -> None:
    shards = _as_shards(_host(tmp_path, "whole", cells=2), 3, tmp_path / "shards")
    at_once = _merge(tmp_path / "at-once", *shards)
    early = _merge(tmp_path / "early", *shards[:2])
    assert "of 3 shards 1 is missing: 3" in " ".join(early.remarks)
    late = _merge(tmp_path / "late", early.folder, shards[1], shards[2])
    assert late.remarks == ()
    assert late.manifest.merged is not None
    assert at_once.manifest.merged is not None
    assert late.manifest.merged.parts == at_once.manifest.merged.parts
    for name in ("trials.parquet", "pools.parquet"):
        assert (late.folder / name).read_bytes() == (at_once.folder / name).read_bytes()
    for trial in (at_once.folder / "cells").iterdir():
        for path in trial.iterdir():
            assert (late.folder / "cells" / trial.name / path.name).read_bytes() == path.read_bytes()


def test_a_shard_that_two_merged_runs_have_measured_is_said(tmp_path: Path) -> None:
    shards = _as_shards(_host(tmp_path, "whole", cells=2), 2, tmp_path / "shards")
    again = tmp_path / "again"
    shutil.copytree(shards[0], again)
    _change(again, run_id="again")
    merged = [_merge(tmp_path / f"merged{number}", first, shards[1]) for number, first in enumerate((shards[0], again))]
    both = _merge(tmp_path / "both", *(one.folder for one in merged))
    assert [one.partition(":")[0] for one in both.remarks] == ["shard 1/2 is there twice"]
    assert len(list((both.folder / "cells").iterdir())) == len(list((merged[0].folder / "cells").iterdir()))


def test_several_processes_give_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [_host(tmp_path, f"h{number}", number, cells=2) for number in range(6)]
    one = _merge(tmp_path / "one", *runs)
    monkeypatch.setattr("stealtime.merging.merging.processes_for", lambda trials: 3 if trials == 24 else 0)
    several = _merge(tmp_path / "several", *runs)
    for name in ("trials.parquet", "pools.parquet"):
        assert (one.folder / name).read_bytes() == (several.folder / name).read_bytes()
    (runs[3] / "cells" / "uml.alone.tick-68us.r1" / "trial.json").write_text("{")
    with pytest.raises(StealtimeError, match="is damaged"):
        _merge(tmp_path / "damaged", *runs)
    assert not [path for path in tmp_path.iterdir() if "damaged" in path.name]


def test_pools_are_those_of_the_counts(tmp_path: Path) -> None:
    runs = [_host(tmp_path, f"h{number}", number) for number in range(5)]
    # Two clocks at 2.6 and 3.1 GHz: both count in picoseconds.
    for path in (runs[4] / "cells").iterdir():
        table = pq.read_table(path / "counts.parquet")
        told = json.loads(table.schema.metadata[b"stealtime"]) | {"units_per_s": 3.1e9}
        write_table(table, path / "counts.parquet", told)
    run = Run.open(_merge(tmp_path / "merged", *runs).folder)
    stored = read_pools(run.folder, tables_of(run).rows)
    assert stored is not None
    assert stored == pools_of_rows(tables_of(run).rows, tables_of(run).counts)
    (cell,) = stored.values()
    assert cell.together is not None
    assert cell.together.units_per_s == 10**12
    assert cell.hosts["h4"].units_per_s == 3_100_000_000


def test_two_machines_with_one_identity_count_as_two(tmp_path: Path) -> None:
    one, other = _host(tmp_path / "a", "twin"), _host(tmp_path / "b", "twin", 2)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["hosts"]["local"]["cpu_model"] = {"value": "another CPU"}
    (other / "manifest.json").write_text(json.dumps(manifest | {"run_id": "other"}))
    merged = _merge(tmp_path / "merged", one, other)
    assert "say that they are one host" in merged.remarks[0]
    assert list(merged.manifest.hosts) == ["twin", "twin-2"]


def test_what_does_not_belong_is_left_out_and_the_rest_is_kept(tmp_path: Path) -> None:
    good, other, early = (_host(tmp_path, name, number) for number, name in enumerate(("good", "other", "early")))
    campaign = json.loads((other / "manifest.json").read_text())["campaign"]
    _change(other, campaign=campaign | {"priority": 7})
    (early / "cells" / "uml.alone.tick-68us.r1" / "trial.json").write_text("{")
    merged = _merge(tmp_path / "merged", good, other, early)
    assert any("its priority of quick differ" in one for one in merged.remarks)
    assert any("a trial of" in one and "damaged" in one for one in merged.remarks)
    assert len(list((merged.folder / "cells").iterdir())) == 3


def test_a_newer_run_is_left_out_by_the_command(
    tmp_path: Path, stealtime: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    good, newer = _host(tmp_path, "good"), _host(tmp_path, "newer")
    _change(newer, schema_version=99)
    assert stealtime("merge", str(good), str(newer), "-o", str(tmp_path / "merged")) == 4
    assert "schema version 99" in capsys.readouterr().err.replace("\n", " ")
    assert stealtime("show", str(tmp_path / "merged")) == 4
    # Where nothing is left, it is told why.
    assert stealtime("merge", str(newer), "-o", str(tmp_path / "none")) == 2
    told = capsys.readouterr().err.replace("\n", " ")
    assert "there is no run that can be merged" in told
    assert "schema version 99" in told
    assert not (tmp_path / "none").exists()


def test_clocks_that_are_hours_apart_are_said(tmp_path: Path) -> None:
    at = SimulatedRun(SimulatedHost("x")).at
    runs = [_host(tmp_path, name, at=at + timedelta(hours=hours)) for name, hours in (("a", 0), ("b", 5))]
    ahead = _host(tmp_path, "c", at=at.replace(year=2099))
    told = " ".join(_merge(tmp_path / "merged", *runs, ahead).remarks)
    assert "b began 5.0 h after a had ended" in told
    assert "the clock of c is ahead" in told


def test_hosts_whose_loops_differ_are_not_pooled(tmp_path: Path) -> None:
    runs = [_host(tmp_path, name) for name in ("a", "b")]
    for trial in (runs[1] / "cells").iterdir():
        text = (trial / "trial.json").read_text()
        assert '"iterations": 64588' in text
        (trial / "trial.json").write_text(text.replace('"iterations": 64588', '"iterations": 70000'))
    merged = _merge(tmp_path / "merged", *runs)
    assert "loops of 2 different lengths" in merged.remarks[0]
    (cell,) = read_merged(Run.open(merged.folder)).cells
    assert cell.not_pooled is not None
    assert all(figure.pooled_ns is None for figure in cell.figures)


def test_a_folder_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there already"):
        _merge(tmp_path, _host(tmp_path / "runs", "a"))
