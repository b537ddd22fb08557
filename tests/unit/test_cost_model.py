"""What servers cost: coefficients that were put in are found, and errors are those of cells that were held out."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from telephony_cells import GUEST, cell_of, registrations

from stealtime.hosts.checkpoints import Checkpoints, within
from stealtime.hosts.frame_counters import traffic_of_device
from stealtime.hosts.members_here import HostProcess
from stealtime.hosts.standby_memory import StandbyMemory, standby_memory
from stealtime.studies.telephony.analysis import models_of, predictions_of, relate
from stealtime.studies.telephony.cost.bearing import ACTIVE, SHARED, Borne, borne
from stealtime.studies.telephony.cost.fitting import Table, fit, held_out
from stealtime.studies.telephony.cost.model import Asked
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.generators.work import StandbyUse, Work
from stealtime.studies.telephony.results import Registrations
from stealtime.studies.telephony.rows import conclusions, tables

LOAD_S, ELAPSED_S = 4.0, 4.2
PACKETS = {"udp": 2.0, "tcp-one": 3.0, "tcp-each": 10.0}
SERVER = {
    "guest_s": 0.03,
    "packets": 40e-6,
    "registrations": 300e-6,
    "connections": 900e-6,
    "arrivals": 200e-6,
    "epochs": 2e-3,
    "pages": 3e-6,
}
HOST = {
    "guest_s": 0.01,
    "packets": 20e-6,
    "registrations": 0.0,
    "connections": 100e-6,
    "arrivals": 30e-6,
    "epochs": 1e-3,
    "pages": 2e-6,
}
STANDBY = {"guest_s": 0.005, "epochs": 400e-6, "pages": 1.5e-6}
GENERATORS = {"guest_s": 0.01, "packets": 5e-6, "registrations": 60e-6, "connections": 50e-6}
PAGES_OF_AN_EPOCH, PAGES_OF_A_REGISTRATION = 120.0, 2.0
MIB = 1 << 20


def trial(transport: str, rate: float, every_ns: int | None, appliances: int = 1, noise: float = 0.0) -> Registrations:
    """Make up a trial whose CPU times are those of the coefficients above, but for some noise."""
    registered = round(rate * LOAD_S * appliances)
    amounts = {
        "guest_s": ELAPSED_S * appliances,
        "registrations": registered,
        "packets": PACKETS[transport] * registered,
        "connections": registered if transport == "tcp-each" else 0,
        "epochs": 0 if every_ns is None else ELAPSED_S * appliances * 1e9 / every_ns,
    }
    amounts["pages"] = PAGES_OF_AN_EPOCH * amounts["epochs"]
    amounts["arrivals"] = amounts["packets"] / 2
    if every_ns is not None:
        amounts["pages"] += PAGES_OF_A_REGISTRATION * registered
        # What is said to released answers comes at once.
        amounts["arrivals"] = min(amounts["arrivals"], registered + amounts["epochs"])
    random = Random(f"{transport} {rate} {every_ns} {appliances}")  # noqa: S311 - noise

    def cpu_ns(each: Mapping[str, float]) -> int:
        total_s = sum(cost * amounts[name] for name, cost in each.items())
        return round(1e9 * total_s * (1 + random.uniform(-noise, noise)))

    standby_ns = cpu_ns(STANDBY)
    is_protected = every_ns is not None
    return registrations(
        rate,
        sent=registered,
        acknowledged=registered,
        elapsed_ns=round(1e9 * ELAPSED_S),
        server_cpu_ns=cpu_ns(SERVER),
        host_cpu_ns=cpu_ns(HOST) + (standby_ns if is_protected else 0),
        checkpoints=Checkpoints(
            guests=appliances, epochs=round(amounts["epochs"]), elapsed_ns=round(1e9 * ELAPSED_S),
            pause_p50_ns=2_000_000, pause_max_ns=3_000_000, pause_total_ns=round(2e6 * amounts["epochs"]),
            hold_p50_ns=100_000_000, shipped_bytes=10_000, pages=round(amounts["pages"]),
        ) if is_protected else None,
        work=Work(
            packets_in=round(amounts["packets"] / 2), packets_out=round(amounts["packets"] / 2),
            bytes_in=1, bytes_out=1, connections=round(amounts["connections"]), machine_cpus=2,
            generators_cpu_ns=cpu_ns(GENERATORS),
        ),
        standby=StandbyUse(
            cpu_ns=standby_ns, memory=StandbyMemory(processes=3, ram_bytes=600 * MIB, other_bytes=50 * MIB)
        ) if is_protected else None,
    )  # fmt: skip


def cell(
    transport: str, rate: float, every_ns: int | None, appliances: int = 1, noise: float = 0.0
) -> TelephonyFigures:
    parameters: dict[str, Any] = {
        "mode": "off" if every_ns is None else "net",
        "transport": transport,
        "rate_per_s": rate,
    }
    parameters |= {} if every_ns is None else {"interval_ns": every_ns}
    parameters |= {} if appliances == 1 else {"appliances": appliances}
    return cell_of(GUEST, "register", parameters, [trial(transport, rate, every_ns, appliances, noise)])


def campaign(noise: float = 0.0) -> list[TelephonyFigures]:
    return [
        cell(transport, rate, every_ns, noise=noise)
        for transport in PACKETS
        for rate in (50.0, 100.0, 200.0)
        for every_ns in (None, 50_000_000, 100_000_000)
    ]


def test_coefficients_that_were_put_in_are_found() -> None:
    (model,) = models_of(campaign())
    for part, put_in in (("server", SERVER), ("host", HOST), ("standby", STANDBY), ("generators", GENERATORS)):
        found = {one.quantity: one.each_s for one in model.parts[part].coefficients}  # type: ignore[index]
        assert set(found) == set(put_in)
        assert found == pytest.approx(put_in, rel=0.02, abs=1e-7), part
        accuracy = model.parts[part].accuracy  # type: ignore[index]
        assert accuracy is not None
        assert accuracy.mape_percent < 0.5


def test_the_error_is_that_of_cells_that_were_held_out() -> None:
    cells = campaign()
    odd = cells[4].model_copy()
    assert odd.cost is not None
    dearer = [one.model_copy(update={"server_s": 2 * one.server_s}) for one in odd.cost.samples]
    cells[4] = odd.model_copy(update={"cost": odd.cost.model_copy(update={"samples": dearer})})
    (model,) = models_of(cells)
    errors = {one.group: one.error_percent for one in model.parts["server"].held_out}
    # Twice as dear as all others say: they predict half of it, whoever is told of it fits it better.
    assert min(errors.values()) == pytest.approx(-50, abs=1)
    accuracy = model.parts["server"].accuracy
    assert accuracy is not None
    assert accuracy.worst_percent == pytest.approx(50, abs=1)
    assert accuracy.cells == len(cells)


def test_a_quantity_that_others_make_up_is_not_told_apart_and_its_cost_is_in_theirs() -> None:
    (model,) = models_of([one for one in campaign() if one.parameters["transport"] == "udp"])
    found = {one.quantity: one for one in model.parts["server"].coefficients}
    assert not found["registrations"].is_kept
    assert found["packets"].each_s == pytest.approx(
        SERVER["packets"] + (SERVER["registrations"] + SERVER["arrivals"]) / 2, rel=0.02
    )


def test_a_cell_that_the_others_do_not_determine_is_not_judged() -> None:
    only_one = [one for one in campaign() if one.parameters["transport"] != "tcp-each"] + [
        cell("tcp-each", 100.0, None)
    ]
    (model,) = models_of(only_one)
    assert [name for name in model.parts["server"].unjudged if "TCP each" in name] == list(
        model.parts["server"].unjudged
    )
    assert len(model.parts["server"].unjudged) == 1


def test_too_few_cells_are_not_judged_and_it_is_said_why() -> None:
    few = [cell("udp", 50.0, None), cell("udp", 100.0, None)]
    assert conclusions(few)[0] == (
        f"cost model, {GUEST}, server: not judged, because 2 cells do not judge 2 coefficients, which takes 4"
    )
    assert models_of([]) == []
    assert tables([]) == []


def test_several_appliances_are_predicted_by_the_load_alone() -> None:
    several = [cell("udp", 80.0, 100_000_000, 2), cell("tcp-each", 80.0, 100_000_000, 4)]
    cells = campaign() + several
    (model,) = models_of(cells)
    for one in predictions_of(model, cells):
        assert {part: round(found.error_percent) for part, found in one.by_part.items()} == {
            "server": 0, "host": 0, "standby": 0, "generators": 0,
        }  # fmt: skip
    # And they are no cells that the model is fitted to.
    assert len(model.singles) == len(cells) - 2
    related = relate(cells)
    assert [one.by for one in (related[-1].cost.parts if related[-1].cost else [])] == ["load"] * 4
    assert [one.by for one in (related[0].cost.parts if related[0].cost else [])] == ["held-out"] * 3


def test_a_load_whose_kind_was_not_measured_of_one_appliance_is_not_predicted() -> None:
    cells = [*campaign(), cell("udp", 80.0, 400_000_000, 2)]
    (model,) = models_of(cells)
    (one,) = predictions_of(model, cells)
    assert one.because == "no single appliance was measured in net every 400 ms with registrations over udp"


@pytest.mark.parametrize("appliances", [1, 2, 4])
def test_what_a_host_bears_is_where_its_cpus_are_used_up(appliances: int) -> None:
    (model,) = models_of([*campaign(), cell("udp", 900.0, 100_000_000)])
    asked = Asked("registrations", "udp", "net", 100_000_000, appliances, LOAD_S, 0)
    found = borne(model, asked, 2, SHARED)
    assert isinstance(found, Borne)

    def used(rate: float) -> float:
        """CPUs that all use together at so many a second, of which each appliance has a part."""
        amounts = {
            "guest_s": appliances,
            "packets": 2 * rate,
            "registrations": rate,
            "arrivals": rate,
            "epochs": 10 * appliances,
        }
        amounts["pages"] = PAGES_OF_AN_EPOCH * amounts["epochs"] + PAGES_OF_A_REGISTRATION * rate
        every = (SERVER, HOST, STANDBY, GENERATORS)
        return sum(cost * amounts.get(name, 0) for each in every for name, cost in each.items())

    if appliances == 1:
        assert found.bound == "virtual CPU"
        # A checkpoint every 100 ms stops the guest for 2 ms.
        assert found.most == pytest.approx((0.98 - 0.03 - 10 * 2e-3 - 1200 * 3e-6) / 586e-6, rel=0.02)
    else:
        assert found.bound == "CPUs of the machine"
        assert used(found.most) == pytest.approx(2, rel=0.02)
    assert found.low <= found.most <= found.high
    alone = borne(model, asked, 2, ACTIVE)
    assert isinstance(alone, Borne)
    assert alone.most >= found.most


def test_noise_widens_what_a_host_bears() -> None:
    asked = Asked("registrations", "udp", "net", 100_000_000, 4, LOAD_S, 0)
    cells = ([*campaign(noise), cell("udp", 900.0, 100_000_000, noise=noise)] for noise in (0.0, 0.1))
    exact, noisy = (borne(models_of(own)[0], asked, 2, SHARED) for own in cells)
    assert isinstance(exact, Borne)
    assert isinstance(noisy, Borne)
    assert exact.high - exact.low < noisy.high - noisy.low


def test_what_is_far_beyond_all_that_was_measured_is_not_judged() -> None:
    (model,) = models_of(campaign())
    found = borne(model, Asked("registrations", "udp", "net", 100_000_000, 1, LOAD_S, 0), 2, SHARED)
    assert isinstance(found, str)
    assert "times the largest load that the model was fitted to" in found


def test_nothing_is_borne_by_a_model_that_is_not_judged() -> None:
    (model,) = models_of([cell("udp", 50.0, None), cell("udp", 100.0, None)])
    found = borne(model, Asked("registrations", "udp", "off", None, 2, LOAD_S, 0), 2, ACTIVE)
    assert found == "of server there is no model: 2 cells do not judge 2 coefficients, which takes 4"


def test_no_coefficient_is_below_zero() -> None:
    rows = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0], [1.0, 4.0]])
    table = Table(list("abcd"), rows, np.array([4.0, 3.0, 2.0, 1.0]), np.ones(4))
    assert (fit(table).coefficients >= 0).all()
    judged, unjudged = held_out(replace(table, groups=list("aabb")))
    assert [one.group for one in judged] == ["a", "b"]
    assert unjudged == []


def test_what_failed_or_was_not_counted_is_no_sample() -> None:
    parameters = {"mode": "net", "transport": "udp", "rate_per_s": 50.0, "interval_ns": 100_000_000}
    whole = trial("udp", 50.0, 100_000_000)
    for spoiled in (whole.model_copy(update={"unanswered": 1}), whole.model_copy(update={"work": None})):
        assert cell_of(GUEST, "register", parameters, [spoiled]).cost is None
    assert cell_of(GUEST, "register", {**parameters, "registered": 10_000}, [whole]).cost is None
    found = cell_of(GUEST, "register", parameters, [whole]).cost
    assert found is not None
    (sample,) = found.samples
    assert sample.host_s == pytest.approx((whole.host_cpu_ns or 0) / 1e9 - (sample.standby_s or 0))


def test_tables_and_sentences_tell_what_is_predicted_and_measured() -> None:
    cells = [*campaign(), cell("udp", 80.0, 100_000_000, 2)]
    told = {one.title.partition(":")[0].partition(",")[0]: one for one in tables(cells)}
    assert list(told) == [
        "What CPU time goes to",
        "CPU of each cell",
        "CPU of several appliances",
        "What a host bears of registrations",
    ]
    assert any("goal of 10 % is met" in line for line in conclusions(cells))
    several = told["CPU of several appliances"].rows[0]
    assert several[0].startswith(GUEST)
    assert "2 appliances" in several[0]
    assert several[1].endswith("(+0 %)") or several[1].endswith("(-0 %)")


def test_epochs_are_counted_within_the_time_of_the_cpu() -> None:
    rows = [{"begin_ns": at} for at in (5, 105, 205, 305)]
    assert within(rows, 200) == rows[:2]
    assert within([], 200) == []


def test_traffic_is_that_of_one_device() -> None:
    printed = (
        '[{"ifname": "lo", "stats64": {"rx": {"packets": 1, "bytes": 2}, "tx": {"packets": 3, "bytes": 4}}},'
        ' {"ifname": "clients", "stats64": {"rx": {"packets": 5, "bytes": 6}, "tx": {"packets": 7, "bytes": 8}}}]'
    )
    seen = traffic_of_device(printed, "clients")
    assert (seen.packets_received, seen.bytes_received, seen.packets_sent, seen.bytes_sent) == (5, 6, 7, 8)
    with pytest.raises(KeyError):
        traffic_of_device(printed, "eth0")


def test_memory_of_standbys_beside_their_guests_is_not_what_is_shared(tmp_path: Path) -> None:
    for pid in (70, 71, 72):
        (tmp_path / f"{pid}/fd").mkdir(parents=True)
        rollup = "0-1 ---p 0 0:0 0 [rollup]\nRss: 9000 kB\nPss: 300 kB\nPss_Shmem: 200 kB\n"
        (tmp_path / f"{pid}/smaps_rollup").write_text(rollup)
    standing = [HostProcess(pid, stands_by=True) for pid in (70, 71, 73)]
    found = standby_memory([*standing, HostProcess(72)], tmp_path)
    assert found == StandbyMemory(processes=2, ram_bytes=0, other_bytes=200 * 1024)
    assert standby_memory([HostProcess(72)], tmp_path) is None


def test_memory_of_a_guest_is_that_of_its_file_which_is_counted_once() -> None:
    def ram_bytes() -> int:
        found = standby_memory([HostProcess(os.getpid(), stands_by=True)] * 2)
        assert found is not None
        return found.ram_bytes

    before, descriptor = ram_bytes(), os.memfd_create("ram")
    try:
        os.ftruncate(descriptor, MIB)
        os.pwrite(descriptor, b"x" * 65_536, 0)
        twice = os.dup(descriptor)
        assert ram_bytes() - before == 65_536
        os.close(twice)
    finally:
        os.close(descriptor)
