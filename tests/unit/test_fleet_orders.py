"""What a fleet run takes for granted and what it refuses: addresses, files, names, versions."""

import asyncio
import base64
import io
import json
import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import stealtime
from stealtime.fleet.carrying import carry
from stealtime.fleet.order import HostFacts, HostOrder, Said
from stealtime.fleet.record import FleetFolder, FleetRecord, HostRecord, _within
from stealtime.fleet.silence import loop_descriptor, silent_until, sleep_silently
from stealtime.fleet.site import Found, _judged, _without_twins
from stealtime.fleet.transport import Credentials, check_address, check_credentials
from stealtime.fleet.travelling import MOST_BYTES, travels
from stealtime.store.spread import EachHost
from stealtime.vocabulary.errors import StealtimeError, UsageError


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "tcp://[::1]:8786", "tls://10.0.0.1:8786", "tls://far:1"])
def test_what_is_encrypted_or_on_this_machine_is_spoken_to(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "tcp://192.0.2.7:1"])
def test_a_scheduler_elsewhere_must_be_encrypted(address: str) -> None:
    with pytest.raises(UsageError, match="not encrypted") as refused:
        check_address(address)
    assert "tls://" in str(refused.value.hint)


@pytest.mark.parametrize("address", ["10.0.0.1:8786", "tls://host", "ucx://host:1", "tls://host:port", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="no address of a scheduler"):
        check_address(address)


def test_credentials_are_three_files_that_are_there(tmp_path: Path) -> None:
    check_credentials(Credentials())
    with pytest.raises(UsageError, match="--tls-cert and --tls-key are missing"):
        check_credentials(Credentials(ca=tmp_path))
    with pytest.raises(UsageError, match="there is no such file"):
        check_credentials(Credentials(tmp_path / "ca", tmp_path / "own", tmp_path / "key"))


def folder(tmp_path: Path) -> FleetFolder:
    record = FleetRecord(
        fleet_id="one",
        created_at=datetime.now(UTC),
        stealtime_version=stealtime.__version__,
        scheduler="tls://host:1",
        is_split=False,
        campaign={},
        hosts=[HostRecord(name="a")],
    )
    return FleetFolder.create(tmp_path / "fleet", record)


def trial(**changed: object) -> Said:
    files = {"trial.json": base64.b64encode(b"{}").decode()}
    return Said.model_validate({"kind": "trial", "run_id": "run", "trial_id": "cell.r1", "files": files, **changed})


def test_a_trial_that_arrives_is_in_its_place_and_once(tmp_path: Path) -> None:
    fleet = folder(tmp_path)
    host = fleet.record.hosts[0]
    fleet.take_trial(host, trial())
    fleet.take_trial(host, trial())
    assert fleet.trials_of(host) == ("cell.r1",)
    assert [path.name for path in (fleet.folder / "runs/run/cells").iterdir()] == ["cell.r1"]


@pytest.mark.parametrize("key", ["run_id", "trial_id", "file"])
@pytest.mark.parametrize("name", ["../out", "{there}", ".", "..", ""])
def test_what_a_host_says_does_not_lead_out_of_the_folder(tmp_path: Path, key: str, name: str) -> None:
    # All of these lead to places below tmp_path: whoever breaks the check must lose nothing else.
    there = tmp_path / "there"
    there.mkdir()
    (there / "kept").write_text("kept")
    fleet = folder(tmp_path)
    said = name.format(there=there)
    with pytest.raises(StealtimeError, match="a name that is none"):
        fleet.take_trial(fleet.record.hosts[0], trial(**({"files": {said: ""}} if key == "file" else {key: said})))
    assert (there / "kept").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir() if path != there] == ["fleet"]


def test_only_what_is_in_the_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    assert _within(tmp_path / "cells", tmp_path / "cells/one") == tmp_path / "cells/one"
    for elsewhere in (tmp_path / "one", tmp_path / "cells/a/one"):
        with pytest.raises(StealtimeError, match="is not in"):
            _within(tmp_path / "cells", elsewhere)


def test_a_fleet_run_is_read_again_and_another_folder_is_not_taken_for_one(tmp_path: Path) -> None:
    fleet = folder(tmp_path)
    assert FleetFolder.open(fleet.folder).record == fleet.record
    with pytest.raises(UsageError, match="there already"):
        FleetFolder.create(fleet.folder, fleet.record)
    with pytest.raises(UsageError, match="no fleet run"):
        FleetFolder.open(tmp_path)
    newer = json.loads((fleet.folder / "fleet.json").read_text()) | {"schema_version": 99}
    (fleet.folder / "fleet.json").write_text(json.dumps(newer))
    with pytest.raises(UsageError, match="schema version 99"):
        FleetFolder.open(fleet.folder)


def test_samples_and_traces_stay_and_all_else_travels(tmp_path: Path) -> None:
    for name in ("trial.json", "counts.parquet", "longest.parquet", "samples.parquet", "events.parquet", "agent.log"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "serial.log").write_bytes(bytes(MOST_BYTES))
    parcel = travels(tmp_path)
    assert set(parcel.files) == {"trial.json", "counts.parquet", "longest.parquet", "agent.log"}
    assert parcel.left == ("events.parquet", "samples.parquet", "serial.log")


def facts(**changed: object) -> HostFacts:
    known: dict[str, object] = {
        "stealtime_version": stealtime.__version__,
        "host": "a",
        "identity": "machine:1",
        "threads": 1,
        "is_quiet": True,
        "silent_within_s": 100.0,
        "control_cpus": (0,),
    }
    return HostFacts.model_validate(known | changed)


@pytest.mark.parametrize(
    ("changed", "why"),
    [({"stealtime_version": "0.0.1"}, "its stealtime is 0.0.1"), ({"threads": 4}, "has 4 threads")],
)
def test_a_worker_that_would_measure_otherwise_gets_nothing(changed: dict[str, object], why: str) -> None:
    judged = _judged("a", "tls://a:1", facts(**changed))
    assert judged.refused is not None
    assert why in judged.refused
    assert judged.hint is not None
    assert _judged("a", "tls://a:1", facts()).refused is None


def test_of_two_workers_of_one_machine_one_is_refused() -> None:
    one, two, other = (
        Found(name, name, facts(host=name, identity=identity))
        for name, identity in (("a", "machine:1"), ("b", "machine:1"), ("c", "machine:2"))
    )
    refused = [found.refused for found in _without_twins([one, two, other])]
    assert refused == [None, "it is the same machine as a", None]


def test_the_fixed_command_refuses_what_is_no_order() -> None:
    said = io.BytesIO()
    assert carry(io.BytesIO(b"import os\n"), said) == 2
    last = Said.model_validate_json(said.getvalue())
    assert last.kind == "finished"
    assert "the order is damaged" in str(last.words)


def test_the_fixed_command_says_what_it_cannot_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    order = HostOrder(
        stealtime_version=stealtime.__version__, fleet_id="f", host="a", campaign={"name": 1}, spread=EachHost()
    )
    said = io.BytesIO()
    assert carry(io.BytesIO(order.model_dump_json().encode() + b"\n"), said) == 2
    assert "does not understand the campaign" in str(Said.model_validate_json(said.getvalue()).words)


async def test_a_silent_loop_is_woken_by_whoever_speaks_and_by_nothing_else() -> None:
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    with os.fdopen(reading, "rb") as source:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
        ticks: list[float] = []
        loop.call_later(0.01, lambda: ticks.append(time.monotonic()))
        assert not sleep_silently(loop_descriptor(loop), 0.05), "a timer of the loop must not wake it"
        assert ticks == []
        pending = asyncio.ensure_future(reader.readline())
        await asyncio.sleep(0)
        speaking = threading.Timer(0.05, lambda: os.write(writing, b"end\n"))
        speaking.start()
        assert await silent_until(pending, 10.0) == 0
        assert pending.result() == b"end\n"
        speaking.join()
    os.close(writing)
