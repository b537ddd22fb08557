"""What neighbours are told and given, where no machine is needed to find out."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.lab.platforms import registry
from stealtime.lab.platforms.model import MachineRequest
from stealtime.lab.scenarios.caches import PAPER_BLOCK_BYTES, default_block_bytes, last_level_cache_bytes
from stealtime.lab.scenarios.model import SCENARIOS, NeighbourSpec, Scenario
from stealtime.lab.scenarios.neighbour_load import load_request, memory_needed_bytes
from stealtime.lab.scenarios.neighbours import neighbours, real_time_findings
from stealtime.lab.scenarios.placement import PlacedNeighbour, Placement
from stealtime.lab.scenarios.placing import place
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.load import CpuLoad, LoadRequest, MemoryLoad


def caches(folder: Path, *levels: tuple[str, str]) -> Path:
    for number, (level, size) in enumerate(levels):
        (folder / f"index{number}").mkdir(parents=True)
        (folder / f"index{number}" / "level").write_text(f"{level}\n")
        (folder / f"index{number}" / "size").write_text(f"{size}\n")
    return folder


def test_the_block_is_twice_the_last_level_cache(tmp_path: Path) -> None:
    folder = caches(tmp_path, ("1", "32K"), ("1", "48K"), ("2", "1024K"), ("3", "32768K"))
    assert last_level_cache_bytes(folder) == 32 << 20
    assert default_block_bytes(folder) == 64 << 20


def test_the_block_is_never_less_than_the_papers(tmp_path: Path) -> None:
    assert default_block_bytes(caches(tmp_path / "small", ("2", "256K"), ("3", "2M"))) == PAPER_BLOCK_BYTES == 9_000_000
    assert last_level_cache_bytes(tmp_path / "nothing") is None
    assert default_block_bytes(tmp_path / "nothing") == PAPER_BLOCK_BYTES
    assert last_level_cache_bytes(caches(tmp_path / "odd", ("3", "unknown"), ("x", "8M"))) is None


def test_the_agent_is_told_what_was_declared() -> None:
    spec = NeighbourSpec.model_validate(
        {"kind": "process", "load": "memory-load", "block": "16MiB", "on": "5s", "off": "2s", "priority": 7}
    )
    [placed] = place(Scenario(name="beside", neighbours=[spec]), (0, 1, 2), None).neighbours
    assert load_request(placed, placed.cpus) == LoadRequest(
        kind=MemoryLoad(block_bytes=16 << 20),
        cpus=[0, 1],
        priority=7,
        threads=1,
        on_ns=5_000_000_000,
        off_ns=2_000_000_000,
    )
    assert load_request(PlacedNeighbour("neighbour 1", "machine", "cpu-load", (1,)), (0,)).kind == CpuLoad()


@given(st.integers(1, 1 << 32))
def test_a_guest_has_room_for_both_blocks_in_half_of_what_its_kernel_leaves(block_bytes: int) -> None:
    placed = PlacedNeighbour("neighbour 1", "machine", "memory-load", (0,), block_bytes=block_bytes)
    memory_bytes = memory_needed_bytes(placed)
    assert memory_bytes % (1 << 20) == 0
    # As seen: a guest of 4059 MiB had 3800 MiB to give, 96 of which any guest needs.
    kept_bytes = memory_bytes * 163 / 4059 + (96 << 20)
    assert 2 * block_bytes <= (memory_bytes - kept_bytes) / 2
    assert memory_bytes <= 17 / 16 * (4 * block_bytes + (97 << 20))


@pytest.mark.parametrize(("platform", "expected"), [("native", 1), ("uml", 0), ("qemu-tcg-paravirt", 0)])
def test_natively_a_neighbour_under_a_real_time_probe_is_told(platform: str, expected: int) -> None:
    findings = real_time_findings(contention(), registry.find(platform))
    assert [finding.code for finding in findings] == ["neighbour_below_realtime"] * expected
    assert all("neighbour 1" in finding.text and "CPU 1" in finding.text for finding in findings)


def test_no_such_finding_where_they_take_turns_or_have_room() -> None:
    native = registry.find("native")
    assert real_time_findings(contention(priority=0), native) == []
    assert real_time_findings(place(SCENARIOS["all-to-all-cpu"], (0, 1), None), native) == []
    assert real_time_findings(place(SCENARIOS["alone"], (0, 1), None), native) == []


def test_two_real_time_threads_of_one_priority_take_no_turns_and_that_is_told() -> None:
    spec = NeighbourSpec.model_validate({"kind": "machine", "load": "same-work", "cpus": "measured"})
    placement = place(Scenario(name="alike", neighbours=[spec]), (0, 1), None)
    (finding,) = real_time_findings(placement, registry.find("native"))
    assert (finding.code, finding.level) == ("neighbour_takes_no_turns", "limits")
    assert "neighbour 1 are real-time threads of one priority: on CPU 1" in finding.text
    assert real_time_findings(placement, registry.find("uml")) == []


def contention(priority: int | None = None) -> Placement:
    return place(SCENARIOS["contention-cpu"].model_copy(update={"priority": priority}), (0, 1), None)


async def test_blocks_that_this_host_has_no_room_for_are_refused_at_once(tmp_path: Path) -> None:
    spec = NeighbourSpec.model_validate({"kind": "process", "load": "memory-load", "block": "1000000GiB", "count": 2})
    placement = place(Scenario(name="greedy", neighbours=[spec]), (0, 1), None)
    with pytest.raises(StealtimeError, match=r"2 neighbours of greedy copy blocks of .*GiB together, and .* available"):
        async with neighbours(placement, registry.find("native"), MachineRequest(((1,),), (0,), tmp_path)):
            pytest.fail("nothing must be booted")
    assert not (tmp_path / "neighbour-1").exists()
