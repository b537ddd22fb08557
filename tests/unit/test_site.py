"""The page over many runs, and SQL over them."""

import re
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from command import Command
from simulated_fleet import SimulatedHost, SimulatedRun, write_run

from stealtime.merging.merging import merge
from stealtime.site.database import Database, open_database
from stealtime.site.overview import overview_of
from stealtime.site.page import write_site
from stealtime.store.run import Run

RECIPES = re.findall(r"```sql\n(.*?)```", (Path(__file__).parents[2] / "docs" / "sql.md").read_text(), re.S)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Twelve hosts that are alike, one that is slow and one of another microcode."""
    folder = tmp_path_factory.mktemp("fleet")
    hosts = [SimulatedHost(f"h{number}") for number in range(12)]
    hosts += [SimulatedHost("slow", slower=(11, 10)), SimulatedHost("other", slower=(11, 10), microcode="0x2")]
    chance = np.random.default_rng(5)
    return [Run.open(write_run(folder, SimulatedRun(host, repetitions=3), chance)) for host in hosts]


@pytest.fixture
def database(fleet: list[Run]) -> Database:
    return open_database(fleet)


def test_there_are_six_recipes() -> None:
    assert len(RECIPES) == 6


@pytest.mark.parametrize("number", range(6))
def test_a_recipe_gives_what_it_says(database: Database, number: int) -> None:
    rows = database.rows(RECIPES[number])
    assert len(rows) >= (0 if "NOT usable" in RECIPES[number] else 1)


def test_the_exact_percentile_is_that_of_all_counts(database: Database, fleet: list[Run]) -> None:
    from stealtime.merging.pooling import pool_of
    from stealtime.merging.tables import tables_of
    from stealtime.store.counts import merge_counts

    ((_, p99_ns, samples),) = database.rows(RECIPES[1])
    tables = [tables_of(run) for run in fleet]
    counts = merge_counts(one for each in tables for one in each.counts.values())
    rate = tables[0].rows[0].units_per_s or 0
    assert int(samples) == counts.samples
    assert p99_ns == pytest.approx(pool_of(counts, round(rate)).value_ns("p99_ns"))


def test_a_query_reads_nothing_but_the_runs(database: Database) -> None:
    import duckdb

    for sql in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY runs TO '/dev/shm/x.csv'",
        "SET enable_external_access = true",
    ):
        with pytest.raises(duckdb.Error):
            database.rows(sql)


def test_parts_of_a_merged_run_count_once(fleet: list[Run], tmp_path: Path) -> None:
    merged = Run.open(merge(fleet, tmp_path / "merged").folder)
    for given in ([*fleet, merged], [merged, *fleet], [merged]):
        opened = open_database(given)
        assert opened.rows("SELECT count(*) FROM trials") == [(3 * len(fleet),)]
        ((counted, told),) = opened.rows("SELECT (SELECT sum(count) FROM counts), (SELECT sum(samples) FROM trials)")
        assert int(counted) == int(told)
        opened.close()


def test_the_page_names_the_slow_one_with_its_way_and_loads_nothing(database: Database, tmp_path: Path) -> None:
    (database.folders[next(iter(database.folders))] / "report.html").write_text("its own page")
    document = overview_of(database, [], tmp_path / "page")
    assert {one.host for one in document.named} == {"slow"}
    assert [one.hosts for one in document.not_judged] == [["other"]]
    write_site(document, tmp_path / "index.html", "14 hosts")
    page = (tmp_path / "index.html").read_text()
    assert "1 of 14 hosts is worse than their peers: <strong>slow</strong>" in page
    assert "report.html" in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert page.count("<svg") == 1


def test_a_page_over_one_host_speaks_of_one(stealtime: Command, tmp_path: Path) -> None:
    folder = write_run(tmp_path, SimulatedRun(SimulatedHost("a"), repetitions=2), np.random.default_rng(1))
    shown = stealtime("site", str(folder), "-o", str(tmp_path / "page"))
    assert "1 run of 1 host, 2 trials" in shown.out
    page = (tmp_path / "page" / "index.html").read_text()
    assert "<h1>1 host</h1>" in page
    assert "1 run of 1 host: 2 trials, " in page
    # It is all hosts together, and its axes are numbers for people.
    assert "each other host" not in page
    assert "1 in 10,000" in page
    assert not re.search(r"1 in 1e|>1[0.]*\.0 [mnµ]?s<", page)


def test_of_samples_that_are_as_long_the_earliest_is_named(tmp_path: Path) -> None:
    early = SimulatedRun(SimulatedHost("z"), repetitions=1)
    late = SimulatedRun(SimulatedHost("a"), early.at + timedelta(days=1), 1)
    folders = [write_run(tmp_path, one, np.random.default_rng(1)) for one in (late, early)]
    document = overview_of(open_database([Run.open(folder) for folder in folders]), [], tmp_path / "page")
    (row,) = document.rows["platform"]
    assert (row.hosts, row.longest_host) == (2, "z")


def test_a_run_that_cannot_be_written_is_read_all_the_same(tmp_path: Path) -> None:
    host = SimulatedHost("a")
    folder = write_run(tmp_path, SimulatedRun(host, repetitions=1), np.random.default_rng(1))
    (folder / "trials.parquet").mkdir()
    opened = open_database([Run.open(folder)])
    assert opened.rows("SELECT host, samples > 0 FROM trials") == [("a", True)]
    later = SimulatedRun(host, SimulatedRun(host).at + timedelta(days=1), 1)
    assert later.at > SimulatedRun(host).at


def test_a_run_that_is_not_there_leaves_no_folder(stealtime: Command, tmp_path: Path) -> None:
    refused = stealtime("site", str(tmp_path / "nowhere"), "-o", str(tmp_path / "page"))
    assert (refused.code, "there is no run" in refused.err) == (2, True), refused.err
    assert not (tmp_path / "page").exists()


def test_a_damaged_run_of_a_folder_leaves_the_others(stealtime: Command, tmp_path: Path) -> None:
    hosts = [SimulatedRun(SimulatedHost(f"h{number}"), repetitions=2) for number in range(3)]
    folders = [write_run(tmp_path / "runs", one, np.random.default_rng(1)) for one in hosts]
    (folders[1] / "manifest.json").write_text("{")
    shown = stealtime("site", str(tmp_path / "runs"), "-o", str(tmp_path / "page"))
    assert "2 runs of 2 hosts" in shown.out
    assert f"{folders[1]} is left out" in shown.err.replace("\n", " ")
    # Where it is the only one, it is told why.
    refused = stealtime("site", str(folders[1]), "-o", str(tmp_path / "none"))
    assert refused.code == 2
    assert f"{folders[1]} is left out" in refused.err.replace("\n", " ")
