"""Who is slowed down or loses frames is named as the limit, for real; phones with passwords, several generators."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from campaign_process import finished_run, start_run
from protect_command import STEALTIME
from sip_capture import Capture
from slowed import STOPPED_S, slowed
from truth import repetitions, some_of
from two_hosts import await_that

from stealtime.hosts import network
from stealtime.hosts.client import LaboratoryClient
from stealtime.hosts.echo import round_trips
from stealtime.hosts.laboratory import CLIENT, Laboratory
from stealtime.hosts.network import Direction
from stealtime.studies.telephony.calls.sessions import attempt_sessions
from stealtime.studies.telephony.generators.evidence import LATE_NS
from stealtime.studies.telephony.generators.limit import Limit
from stealtime.studies.telephony.place.native import NativePlace
from stealtime.studies.telephony.registrations import load as registrations
from stealtime.studies.telephony.registrations.load import Load, Registered, fresh_names, run_load, unknown_users
from stealtime.studies.telephony.results import Registrations
from stealtime.studies.telephony.sipp.program import widen_ports

pytestmark = [
    pytest.mark.protect,
    pytest.mark.longer,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

CAMPAIGN = """
name = "passwords"
platforms = ["native"]
scenarios = ["telephony"]
repetitions = 1

[[probes]]
probe = "register"
duration = "1s"
mode = ["off"]
rate = [400]
auth = [false, true]
generators = [2]
"""
RUNS = repetitions(1, 20)
RATE_PER_S = 500.0
COUNT = 1_000


@pytest.fixture(scope="module")
def native() -> Iterator[NativePlace]:
    with Laboratory(("a",)) as standing:
        widen_ports(LaboratoryClient(standing))
        place = NativePlace(standing)
        place.start()
        place.await_ready()
        yield place
        place.stop()


def registered(native: NativePlace, *, count: int = COUNT, auth: bool = False, generators: int = 1) -> Registered:
    """Have phones register, with names that none had before."""
    names = fresh_names()
    load = Load(transport="udp", rate_per_s=RATE_PER_S, count=count, names=names, auth=auth, generators=generators)
    found, _, _ = run_load(native, load, native.laboratory.folder / names)
    return found


def limit_of(native: NativePlace) -> Limit:
    limit = registered(native).limit
    assert limit is not None
    return limit


def generators_of(laboratory: Laboratory) -> list[int]:
    """Give the pids of all SIPps."""
    return [pid for pid in laboratory.processes(CLIENT) if _name(pid) == "sipp"]


@pytest.mark.alone
@pytest.mark.parametrize("run", range(RUNS))
def test_a_generator_that_is_slowed_down_is_the_limit(native: NativePlace, run: int) -> None:
    with slowed(lambda: generators_of(native.laboratory)):
        limit = limit_of(native)
    assert limit.by == "generator", (run, limit.sentence)
    assert limit.evidence.late_max_ns > STOPPED_S * 1e9 / 2


@pytest.mark.alone
@pytest.mark.parametrize("run", range(RUNS))
def test_a_server_that_is_slowed_down_is_the_limit_and_never_its_generator(native: NativePlace, run: int) -> None:
    with slowed(lambda: native.laboratory.processes("a")):
        limit = limit_of(native)
    assert limit.by == "server", (run, limit.sentence)
    assert limit.evidence.failed > COUNT / 4


@pytest.mark.parametrize(
    ("direction", "is_known"), some_of([("from", True), ("to", True), ("from", False), ("to", False)], ("to", False))
)
def test_a_network_that_loses_frames_is_the_limit(native: NativePlace, direction: Direction, is_known: bool) -> None:
    if not is_known:
        # The link gets only the requests for the server's address then; what waits for an answer is dropped before.
        network.batch(native.laboratory.client.namespace, ["neigh flush all"])
    native.laboratory.cut("a", "clients", direction)
    try:
        limit = limit_of(native)
    finally:
        native.laboratory.mend_all()
        # Phones go on believing for a while that nobody has the server's address.
        await_that(
            lambda: None not in round_trips(native.client, native.address, 3, 10_000_000),
            lambda: f"{native.address} does not answer after the network was mended",
        )
    assert limit.by == "network", limit.sentence
    # Each request was lost, or its answer was, and each copy of it that SIPp sent again.
    assert (limit.evidence.frames_dropped or 0) >= limit.evidence.failed == COUNT


@pytest.mark.alone
def test_nothing_is_the_limit_of_a_load_that_is_borne(native: NativePlace) -> None:
    limit = limit_of(native)
    seen = limit.evidence
    assert limit.by == on_a_busy_host(limit, "none"), limit.sentence
    assert (seen.datagrams_dropped, seen.frames_dropped, seen.failed) == (0, 0, 0)
    assert seen.cpu_percent is not None
    assert 0 < seen.cpu_percent < 100
    assert 0 < seen.server_cpu_percent < 100


def test_a_phone_with_a_password_registers_by_a_second_request(native: NativePlace) -> None:
    with Capture(native.laboratory) as capture:
        found = registered(native, count=100, auth=True)
    counts = found.finished.counts
    assert (len(found.answered_ns), counts.failed) == (100, 0)
    assert capture.dropped == 0
    assert capture.counts["REGISTER"] == 200 + counts.retransmissions
    assert (capture.counts["401 REGISTER"], capture.counts["200 REGISTER"]) == (100, 100)
    users = [*found.answered_ns, "nobody"]
    folder = native.laboratory.folder / f"asked-{fresh_names()}"
    assert unknown_users(native.client, native.address, users, folder) == ["nobody"]


def test_a_phone_with_another_password_is_refused(native: NativePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "password_of", lambda user: f"not that of {user}".replace(" ", "-"))
    found = registered(native, count=20, auth=True)
    assert (len(found.answered_ns), found.finished.counts.unexpected) == (0, 20)


@pytest.mark.parametrize("offer", some_of([2, 3], 3))
def test_several_generators_offer_one_load(native: NativePlace, offer: int) -> None:
    with Capture(native.laboratory) as capture:
        found = registered(native, generators=offer)
    assert len(found.answered_ns) == COUNT
    assert capture.counts["REGISTER"] == found.finished.counts.created + found.finished.counts.retransmissions
    assert found.finished.counts.created == COUNT
    assert found.limit is not None
    assert found.limit.evidence.generators == offer
    assert found.offered_per_s == pytest.approx(RATE_PER_S, rel=0.1)


def test_several_generators_begin_sessions_together(native: NativePlace, tmp_path: Path) -> None:
    tried = attempt_sessions(native, "udp", 20, 1, tmp_path / "sessions", generators=3)
    assert (tried.sent, tried.acknowledged, tried.failure) == (20, 20, None)
    assert tried.limit is not None
    assert tried.limit.by == on_a_busy_host(tried.limit, "none"), tried.limit.sentence
    assert (tried.limit.evidence.generators, tried.limit.evidence.failed) == (3, 0)


def test_a_campaign_tells_what_a_password_costs_and_what_offered_the_load(tmp_path: Path) -> None:
    campaign = tmp_path / "passwords.toml"
    campaign.write_text(CAMPAIGN)
    run, _ = finished_run(start_run(tmp_path, str(campaign)), tmp_path)
    seen = [("auth" in trial.record.cell.parameters, trial.result(Registrations)) for trial in run.measured]
    assert sorted(auth for auth, _ in seen) == [False, True]
    for _, one in seen:
        assert one.acknowledged == one.sent == 400
        assert one.limit is not None
        assert one.limit.by == on_a_busy_host(one.limit, "none"), one.limit.sentence
        assert (one.limit.evidence.generators, one.limit.evidence.failed) == (2, 0)
    shown = subprocess.run(
        [str(STEALTIME), "show", "last", "--all"],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "a registration with a password takes" in shown
    assert "What offered the load, and what was lost around it" in shown


def on_a_busy_host(limit: Limit, by: str) -> str:
    """Give who is to be named where nobody is slowed down: a host that others use slows down SIPp, too."""
    return "generator" if limit.evidence.late_p99_ns >= LATE_NS else by


def _name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.NoSuchProcess:
        return ""
