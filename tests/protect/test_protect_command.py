"""`stealtime protect` from start to stop with a real guest, as a user calls it, and the demonstration."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest
from documents import hold_against_schema
from protect_command import MACHINE, PATIENCE_S, assert_refused, belonging_to, protect, state_of_its_own, taps
from pyarrow import parquet
from truth import repetitions
from two_hosts import await_that

from stealtime.hosts import network
from stealtime.hosts.laboratory import GUEST_ADDRESS
from stealtime.lab.image.kernel import find_kernel
from stealtime.lab.platforms.process import run_mark
from stealtime.protect.machine import pack_agent
from stealtime.protect.state import State
from stealtime.schemas import DOCUMENTS

pytestmark = [
    pytest.mark.protect,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[State]:
    with state_of_its_own(tmp_path_factory.mktemp("s")) as made:
        yield made


def shown(state: State) -> tuple[int, dict[str, dict[str, Any]]]:
    """Give the exit code of `status --json`, and what it prints of each host."""
    done = protect(state, "status", "phone", "--json")
    document = json.loads(done.stdout)
    hold_against_schema(document, "status")
    return done.returncode, {member["host"]: member for member in document["members"]}


def test_a_machine_is_protected_shown_handed_over_exported_and_stopped(state: State, tmp_path: Path) -> None:
    before = taps()
    vm = tmp_path / "VM.toml"
    vm.write_text(MACHINE)
    options = ("--host", "a", "--interval", "50ms", "--mode", "net", "--timeout", f"{PATIENCE_S:g}s")
    started = protect(state, "start", str(vm), "--to", "local", *options)
    assert started.returncode == 0, started.stderr
    assert "phone on a: protected by local, mode net" in started.stderr
    assert started.stdout == ""

    code, members = shown(state)
    assert code == 0
    assert {host: member["role"] for host, member in members.items()} == {"a": "active", "local": "standby"}
    active = members["a"]
    assert active["protected"] is True
    assert (active["mode"], active["interval_ns"], active["standby"]["name"]) == ("net", 50_000_000, "local")
    assert active["warnings"] == []
    await_that(lambda: shown(state)[1]["a"]["acknowledged"] > active["acknowledged"] + 10, lambda: str(shown(state)))
    table = protect(state, "status")
    assert table.returncode == 0
    assert "phone" in table.stdout
    assert "yes" in table.stdout

    moved = protect(state, "failover", "phone")
    assert moved.returncode == 0, moved.stderr
    assert "phone moves to local" in moved.stderr

    def is_protected_by_a() -> dict[str, Any] | None:
        code, members = shown(state)
        found = members.get("local", {})
        return found if code == 0 and found["role"] == "active" and found["standby"]["name"] == "a" else None

    after = await_that(is_protected_by_a, lambda: str(shown(state)))
    assert after["term"] > active["term"]
    assert after["epoch"] > active["acknowledged"]
    assert after["resume_ns"] > 0

    epochs = tmp_path / "epochs.parquet"
    await_that(lambda: protect(state, "export", "phone", "-o", str(epochs)).returncode == 0, lambda: str(shown(state)))
    table_of_epochs = parquet.read_table(epochs)
    assert table_of_epochs.num_rows > 0
    # A pause is the sum of its parts, and what was acknowledged was held until then.
    for row in table_of_epochs.to_pylist():
        parts = ("stop_ns", "cut_ns", "save_ns", "scan_ns", "copy_ns", "continue_ns")
        assert row["pause_ns"] == sum(row[part] for part in parts), row
        assert row["shipped_bytes"] > 0
        assert row["hold_ns"] > 0
    assert_refused(
        protect(state, "export", "phone", "-o", str(tmp_path / "epochs.txt")), 2, "neither *.parquet nor *.csv"
    )

    stopped = protect(state, "stop", "phone")
    assert stopped.returncode == 0, stopped.stderr
    _, alive = psutil.wait_procs(belonging_to(state), timeout=PATIENCE_S)
    assert alive == []
    assert taps() == before
    assert protect(state, "status").returncode == 3


def test_the_demonstration_shows_a_failover_and_leaves_nothing(state: State) -> None:
    namespaces = set(network.NAMESPACES.glob(f"{network.PREFIX}*"))
    done = protect(state, "demo", "--json")
    assert done.returncode == 0, done.stderr
    assert "SIGKILL of the primary" in done.stderr
    shown = json.loads(done.stdout)
    assert shown["schema_version"] == 2
    assert (shown["mode"], shown["interval"], shown["is_whole"]) == ("net", "100ms", True)
    assert shown["runs_again_after_ns"] > 0
    client = shown["client"]
    assert client["violations_total"] == 0
    assert client["tcp_lived"] is True
    assert client["check"]["mismatches"] == 0
    assert client["acknowledged"] > 0
    without, protected = (shown["round_trip_p50"][which] for which in ("without_protection", "protected"))
    for protocol in ("tcp_ns", "udp_ns"):
        # What is held waits for the end of an epoch: that is the price of losing nothing.
        assert protected[protocol] > without[protocol] > 0
    before, after = shown["before"], shown["after"]
    assert (before["host"], before["role"], before["protected"]) == ("a", "active", True)
    assert (after["host"], after["role"], after["protected"]) == ("b", "active", True)
    assert after["term"] > before["term"]
    member = {"$ref": "#/$defs/MemberStatus", "$defs": DOCUMENTS["status"].schema()["$defs"]}
    for status in (before, after):
        jsonschema.validate(status, member)
    mine = {name for name in network.NAMESPACES.glob(f"{network.PREFIX}*") if run_mark() not in name.name}
    assert mine <= namespaces, "the demonstration leaves its network behind"


@pytest.mark.longer
def test_a_plan_tells_what_each_mode_costs_and_leaves_nothing(state: State, tmp_path: Path) -> None:
    namespaces = set(network.NAMESPACES.glob(f"{network.PREFIX}*"))
    vm, load, told = tmp_path / "VM.toml", tmp_path / "load.py", tmp_path / "address"
    vm.write_text(MACHINE)
    load.write_text(f"import sys, time\nopen({str(told)!r}, 'a').write(sys.argv[1] + chr(10))\ntime.sleep(600)\n")
    watched = f"{repetitions(few=2, full=4)}s"
    given = ("--interval", "100ms", "--for", watched, "--load", f"{sys.executable} {load} {{address}}", "--json")
    done = protect(state, "plan", str(vm), *given)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    figures = {way["mode"]: way["figures"] for way in document["ways"]}
    assert set(figures) == {"off", "no-net", "net"}
    assert all(one["unanswered"] == 0 for one in figures.values()), figures
    # Only where output is held does it wait: on an even spread for half of an interval, at the least.
    assert max(figures[mode]["round_trip_p50_ns"] for mode in ("off", "no-net")) < 30_000_000, figures
    assert 45_000_000 < figures["net"]["round_trip_p50_ns"] < 100_000_000, figures
    for mode in ("no-net", "net"):
        assert figures[mode]["checkpoints_per_s"] == pytest.approx(10, abs=2)
        assert 0 < figures[mode]["stopped_share"] < 0.5
        assert figures[mode]["standby_cpus"] > 0
    assert figures["off"]["stopped_share"] is None
    addresses = told.read_text().split()
    assert len(addresses) == len(document["ways"]) == 4
    assert set(addresses) == {GUEST_ADDRESS}, "the load was told another guest"
    assert [one for one in psutil.process_iter(["cmdline"]) if str(load) in (one.info["cmdline"] or [])] == []
    mine = {name for name in network.NAMESPACES.glob(f"{network.PREFIX}*") if run_mark() not in name.name}
    assert mine <= namespaces, "the plan leaves its network behind"


def test_a_load_that_ends_early_is_no_load(state: State, tmp_path: Path) -> None:
    vm = tmp_path / "VM.toml"
    vm.write_text(MACHINE)
    refused = protect(state, "plan", str(vm), "--interval", "100ms", "--for", "2s", "--load", "sleep 1")
    assert refused.returncode == 1, refused.stderr
    assert refused.stdout == ""
    progress, error, hint = refused.stderr.splitlines()
    assert progress == "1 of 4: off, checkpoints: none"
    assert error == "error: the load 'sleep 1' ended before the measurement did, with exit code 0"
    assert hint.startswith("hint: have it go on")


@pytest.mark.truth
def test_a_plan_boots_images_from_anywhere_in_a_network_of_the_guests_own(state: State, tmp_path: Path) -> None:
    shutil.copy(pack_agent(find_kernel("cloud")).path, tmp_path / "own.cpio")
    vm = tmp_path / "VM.toml"
    vm.write_text(
        'name = "own"\ninitramfs = "own.cpio"\n'
        'kernel_arguments = "stealtime.address=192.168.55.2/24 stealtime.run=counter,tcp=7000,udp=7000"\n'
    )
    given = ("--interval", "100ms", "--for", "1s", "--address", "192.168.55.2/24", "--json")
    done = protect(state, "plan", str(vm), *given)
    assert done.returncode == 0, done.stderr
    figures = [(way["mode"], way["figures"]) for way in json.loads(done.stdout)["ways"]]
    assert [mode for mode, _ in figures] == ["off", "no-net", "net", "off"]
    assert all(one["unanswered"] == 0 for _, one in figures), figures
