"""What an agent, the memory, the disk or a run that is resumed would refuse is told before a machine is booted."""

import os
import re
from pathlib import Path

import pytest
from command import Command
from pydantic import ValidationError
from scripted_agent import ScriptedPlatform
from test_preflight import SHORT, dry_too, nothing_began
from test_runner import only

from stealtime.campaigns.file import find_campaign
from stealtime.campaigns.intention import Intention
from stealtime.campaigns.keeping import tell_what_is_not_kept_in_part
from stealtime.campaigns.overrides import Overrides, apply_overrides
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import plan
from stealtime.lab.host import LocalHost
from stealtime.lab.memory import MemoryRoom
from stealtime.lab.scenarios import neighbour_load
from stealtime.lab.scenarios.model import NeighbourSpec, Scenario
from stealtime.lab.scenarios.neighbour_load import refuse_too_much_memory
from stealtime.lab.scenarios.placing import place
from stealtime.store.model import PlatformRecord
from stealtime.store.run import Run
from stealtime.store.writer import RunWriter
from stealtime.vocabulary.errors import UsageError

CAMPAIGN = """
name = "own"
scenarios = ["here"]
{keys}
[[probes]]
{probe}
[[define]]
name = "here"
{neighbours}
"""
TICK = 'probe = "tick"\nduration = "1s"'
CRATES = Path(__file__).parents[2] / "crates"


def campaign(folder: Path, *, keys: str = "", probe: str = TICK, neighbours: str = "") -> str:
    path = folder / "own.toml"
    path.write_text(CAMPAIGN.format(keys=keys, probe=probe, neighbours=neighbours))
    return str(path)


@dry_too
@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ("quick", "--probe", "wakeup", "-i", "10s", "-D", "1s"),
            "wakeup every 10s never wakes up in a trial of 1s",
            "measure for longer (-D)",
        ),
        (
            ("quick", "--probe", "wakeup", "-i", "900ns", "-D", "1s"),
            "wakeup cannot wake up every 900ns",
            "every 1us or less often",
        ),
        (("rtos2013", "-D", "50ms"), "and no job of it ends within a trial of 50ms", "measure for at least "),
        (
            ("rtos2013", "-p", "5"),
            "20 tasks need as many priorities, and the first one's is 5",
            "a priority of at least 20",
        ),
        (("quick", "--probe", "tick", "--loop", "10s", "-D", "20s"), "a loop of 10s is too long", "3750ms at most"),
        (
            ("quick", "--probe", "tick", "-l", "1000000000", "-D", "1s"),
            "loop of 68 µs takes 3.73 GiB of memory, and uml has 256 MiB",
            "more `memory`",
        ),
    ],
)
def test_what_an_agent_would_refuse_is_told_before_a_boot(
    stealtime: Command,
    platforms: list[ScriptedPlatform],
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
    hint: str,
    dry: tuple[str, ...],
) -> None:
    ended = stealtime("run", *arguments, "-P", "uml", *dry)
    assert ended.code == 2, ended.err
    assert message in ended.err
    assert hint in ended.err.split("hint: ")[1]
    assert [platform.boots for platform in platforms] == [0, 0, 0]
    assert nothing_began(stealtime, tmp_path)


def test_what_just_fits_is_not_refused(stealtime: Command) -> None:
    just = ("run", "quick", "--probe", "wakeup", "-i", "1s", "-D", "1s", "--dry-run")
    assert stealtime(*just).code == 0
    assert stealtime("run", "rtos2013", "-P", "uml", "-p", "20", "-D", "100ms", "--dry-run").code == 0
    # Its samples are taken away while it measures.
    long = ("run", "quick", "--probe", "tick", "-P", "uml", "-l", "1000000000", "-D", "2m", "--dry-run")
    assert stealtime(*long).code == 0


@dry_too
def test_a_thief_without_a_priority_above_the_probe_is_told_before_a_boot(
    stealtime: Command, tmp_path: Path, dry: tuple[str, ...]
) -> None:
    own = campaign(tmp_path, keys='injection = { every = "50ms", steal = "5ms" }')
    assert stealtime("run", own, "-P", "native", "-p", "98", "--dry-run").code == 0
    ended = stealtime("run", own, "-P", "native", "-p", "99", *dry)
    assert ended.code == 2
    assert "needs a priority above that of the probes, and theirs is 99 (here)" in ended.err
    assert "hint: measure with a priority of at most 98 (-p)" in ended.err
    assert nothing_began(stealtime, tmp_path)


@dry_too
@pytest.mark.parametrize(
    ("probe", "message"),
    [
        ('collection = "300MiB"', "contend, iterations 90, tasks 32 takes 9.67 GiB of memory, and uml has 256 MiB"),
        ('io = "2m"', "contend cannot sleep for 2m each time"),
        ("iterations = 5_000_000_000", "contend cannot count iterations = 5000000000"),
    ],
)
def test_work_that_an_agent_would_refuse_is_told_before_a_boot(
    stealtime: Command, tmp_path: Path, probe: str, message: str, dry: tuple[str, ...]
) -> None:
    own = campaign(tmp_path, probe=f'probe = "contend"\nduration = "1m"\n{probe}')
    ended = stealtime("run", own, "-P", "uml", *dry)
    assert ended.code == 2, ended.err
    assert message in ended.err.replace("collection_bytes 314572800, ", "")
    assert nothing_began(stealtime, tmp_path)


def test_the_limits_are_those_of_the_agent() -> None:
    def told(path: str, name: str) -> int:
        found = re.search(rf"const {name}: u\d+ = ([\d_]+);", (CRATES / path).read_text())
        assert found is not None, name
        return int(found[1].replace("_", ""))

    from stealtime.lab.scenarios import model
    from stealtime.studies.latency.probes import wakeup
    from stealtime.studies.realtime import probes as rtload
    from stealtime.studies.stretch import probes as contend

    assert vars(wakeup)["_SHORTEST_INTERVAL_NS"] == told("probe/src/wakeup.rs", "SHORTEST_INTERVAL_NS")
    assert vars(rtload)["_LONGEST_PERIOD_NS"] == told("probe/src/rtload/mod.rs", "LONGEST_PERIOD_NS")
    assert vars(contend)["_LONGEST_IO_NS"] == told("probe/src/contend/mod.rs", "LONGEST_IO_NS")
    assert vars(model)["_SHORTEST_PHASE_NS"] == told("probe/src/load/mod.rs", "SHORTEST_PHASE_NS")
    assert vars(model)["_SMALLEST_BLOCK_BYTES"] == told("probe/src/load/mod.rs", "SMALLEST_BLOCK_BYTES")


@pytest.mark.parametrize("key", [{"block": "4095B"}, {"on": "99us", "off": "1s"}, {"on": "1s", "off": "366d"}])
def test_a_load_that_an_agent_would_refuse_is_told_when_it_is_read(key: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="should be"):
        NeighbourSpec.model_validate({"kind": "process", "load": "memory-load", **key})


def test_a_share_of_a_machine_on_another_host_is_told_before_a_boot(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    platforms.append(ScriptedPlatform("ssh:board"))
    paper = ("run", "hyperv2013", "--short", "-P", "ssh:board", "--scenario", "contention-cpu")
    why = "contention-cpu of ssh:board: shares (at most 50 % of a CPU, weight 100) are made on this host"
    for dry in ((), ("--dry-run",)):
        ended = stealtime(*paper, *dry)
        assert ended.code == 1
        assert "none of the platforms ssh:board can be had in any scenario of hyperv2013" in ended.err
        assert why in ended.err
    assert platforms[-1].boots == 0
    assert nothing_began(stealtime, tmp_path)
    others = stealtime(*paper, "--scenario", "one-to-one", "--dry-run")
    assert others.code == 0
    assert f"skipping {why}" in others.out


@dry_too
def test_blocks_of_neighbours_that_do_not_fit_are_told_before_a_boot(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path, dry: tuple[str, ...]
) -> None:
    greedy = '[[define.neighbours]]\nkind = "process"\nload = "memory-load"\nblock = "900GiB"'
    ended = stealtime("run", campaign(tmp_path, neighbours=greedy), "-P", "native", *dry)
    assert ended.code == 2
    assert "1 neighbours of here copy blocks of 1800 GiB together, and " in ended.err
    assert [platform.boots for platform in platforms] == [0, 0, 0]
    assert nothing_began(stealtime, tmp_path)


@dry_too
def test_guests_that_do_not_fit_together_are_told_before_a_boot(
    stealtime: Command, tmp_path: Path, dry: tuple[str, ...]
) -> None:
    crowd = '[[define.neighbours]]\nkind = "machine"\nload = "cpu-load"\ncount = 4000'
    own = campaign(tmp_path, neighbours=crowd)
    ended = stealtime("run", own, "-P", "uml", *dry)
    assert ended.code == 2
    assert "the machine and 4000 neighbours of here have 1000 GiB of memory together, and " in ended.err
    assert stealtime("run", own, "-P", "native", "--dry-run").code == 0, "natively they are processes"
    assert nothing_began(stealtime, tmp_path)


def test_a_load_gets_no_more_than_half_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = NeighbourSpec.model_validate({"kind": "process", "load": "memory-load", "block": "100MiB", "count": 2})
    placement = place(Scenario(name="busy", neighbours=[spec]), (0, 1), None)
    monkeypatch.setattr(neighbour_load, "read_memory_room", lambda: MemoryRoom(600 << 20, "MemAvailable"))
    refuse_too_much_memory(placement, None)
    monkeypatch.setattr(neighbour_load, "read_memory_room", lambda: MemoryRoom(599 << 20, "MemAvailable"))
    with pytest.raises(UsageError, match="copy blocks of 400 MiB together, and 599 MiB are available, of which a load"):
        refuse_too_much_memory(placement, None)


@dry_too
def test_a_folder_that_cannot_be_written_is_told_before_a_boot(
    stealtime: Command,
    platforms: list[ScriptedPlatform],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dry: tuple[str, ...],
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    ended = stealtime(*SHORT, "--runs", str(in_the_way / "runs"), *dry)
    assert ended.code == 1
    assert f"error: {in_the_way / 'runs'} cannot be written: Not a directory" in ended.err
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    ended = stealtime(*SHORT, "--runs", str(tmp_path / "runs"), *dry)
    assert ended.code == 1
    assert f"error: {tmp_path / 'runs'} cannot be written: Permission denied" in ended.err
    assert "hint: check that it is writable, or choose another folder" in ended.err
    assert [platform.boots for platform in platforms] == [0, 0, 0]
    assert not (tmp_path / "runs").exists()


@dry_too
def test_a_run_that_another_process_writes_is_not_resumed_and_that_is_told_before_a_boot(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path, dry: tuple[str, ...]
) -> None:
    platforms[1].behaviour = only(10, "refuse")
    stealtime(*SHORT)
    boots = [platform.boots for platform in platforms]
    [folder] = (tmp_path / "data" / "stealtime" / "runs").iterdir()
    writer = RunWriter.reopen(Run.open(folder))
    ended = stealtime("run", "--resume", folder.name, *dry)
    writer.close()
    assert ended.code == 2
    assert f"error: the run {folder.name} is being written by another stealtime" in ended.err
    assert [platform.boots for platform in platforms] == boots


def test_that_a_long_cell_is_not_kept_in_part_is_told_before_it_begins(stealtime: Command, tmp_path: Path) -> None:
    given = 'probe = "rtload"\nset = "one"\n[[probes.tasks]]\ncost = "1ms"\nperiod = "1s"'
    own = campaign(tmp_path, probe=given.replace("\n", '\nduration = "20m"\n', 1))
    told = "a cell of rtload takes 20 min 00 s, and is not stored in parts: an interruption keeps what it has measured"
    dry = stealtime("run", own, "-P", "native", "--dry-run")
    assert told in dry.out, dry.err
    assert told in stealtime("run", own, "-P", "native").err
    assert "not stored in parts" not in stealtime("run", own, "-P", "native", "-D", "9m", "--dry-run").out
    long = stealtime("run", "quick", "-D", "30m", "-P", "native", "--dry-run")
    assert "not stored in parts" not in long.out, "samples of durations are stored in parts"


def test_that_nothing_of_a_long_cell_of_a_driver_is_kept_is_told(tmp_path: Path) -> None:
    long = apply_overrides(find_campaign("protection"), Overrides(duration_ns=1_200_000_000_000, probes=("failover",)))
    record = PlatformRecord(name="qemu-tcg-paravirt", usable=True, reason="")
    planned = plan(long, [record], HostCpus((0, 1)))
    (told,) = tell_what_is_not_kept_in_part(Intention(planned, {}, LocalHost(), tmp_path))
    assert told.startswith("a cell of failover takes 20 min ")
    assert told.endswith("and nothing of it is kept if it is interrupted or fails before it is over")
