"""The live screen, the metrics and the dashboard, on made-up figures."""

import json
import re
import socket
import urllib.request
from importlib import resources
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from synthetic_use import guest, use
from syrupy.assertion import SnapshotAssertion

from stealtime.capacity.rules import load_rules
from stealtime.capacity.terminal import duration
from stealtime.capacity.use import Use
from stealtime.capacity.watch.metrics import LOOPBACK, Metrics, read_address, serving
from stealtime.capacity.watch.screen import render
from stealtime.capacity.watch.sparkline import sparkline
from stealtime.capacity.watch.state import Blame, Neighbours, Snapshot, State
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.readings import Absent

RULES = load_rules()
BLAMES = (Blame("web", 0, "guest db", 48.0), Blame("web", 0, "kworker/0:1", 1.5, tid=77))


def busy_host() -> Use:
    web = guest("web", run=[50.0], wait=[50.0], cpus=[0], queue=2.0)
    db = guest("db", run=[49.0, 1.0], wait=[50.5, 0.0], cpus=[0])
    lost = guest("lost", unreadable=Absent(absent="its virtual CPUs cannot be told from its other threads"))
    return use([web, db, lost], busy=(100.0, 3.0))


def snapshot(seen: Use, samples: int = 12, neighbours: Neighbours | None = None) -> Snapshot:
    state = State(RULES)
    if neighbours is not None:
        state.blame(neighbours)
    for _ in range(samples):
        last = state.take(seen)
    return last


def drawn(shown: Snapshot, rows: int | None = None, width: int = 120) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(render(shown, rows=rows, notes=["a note"]))
    return console.export_text()


def test_bars_end_at_the_highest_and_a_missing_one_is_no_bar() -> None:
    assert sparkline([0, 12.5, 50, 99.9, 100, 250, None], width=9) == "  ▁▂▅███·"
    assert sparkline(list(range(100)), width=3) == "███"


def test_durations_have_three_digits() -> None:
    assert [duration(one) for one in (12.0, 3_780_000.0, 2.5e9)] == ["12 ns", "3.78 ms", "2.5 s"]


def test_the_screen(snapshot_text: SnapshotAssertion) -> None:
    assert drawn(snapshot(busy_host(), neighbours=Neighbours(BLAMES, 0.2))) == snapshot_text


@pytest.fixture(name="snapshot_text")
def _snapshot_text(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot


def test_a_host_without_guests_is_shown_too() -> None:
    text = drawn(snapshot(use()))
    assert "host: not judged" in text
    assert "no guest runs on this host" in text


def test_many_guests_are_cut_to_the_terminal_the_worst_first() -> None:
    guests = [guest(f"g{number:02}", run=[50.0], wait=[float(number)]) for number in range(40)]
    shown = snapshot(use(guests, busy=[50.0] * 64))
    text = drawn(shown, rows=40)
    assert len(text.splitlines()) <= 40
    assert "g39" in text
    assert "g00" not in text
    assert re.search(r"and \d+ that wait less", text)
    assert re.search(r"and \d+ less busy ones", text)
    assert "g00" in drawn(shown)


def test_why_there_are_no_neighbours_is_said() -> None:
    text = drawn(snapshot(busy_host(), neighbours=Neighbours(absent=Absent(absent="tracefs is for root"))))
    assert "neighbours: not known, because tracefs is for root" in text


def test_guests_that_come_and_go_leave_no_totals_behind() -> None:
    state = State(RULES)
    state.take(use([guest("a"), guest("b")]))
    last = state.take(use([guest("a")]))
    assert [key.name for key, _ in last.totals] == ["a"]
    assert last.guests.keys() == {guest("a").guest.key}


def exposed(shown: Snapshot) -> dict[str, dict[tuple[str, ...], float]]:
    """Give every series by its metric's name and its labels' values."""
    metrics, registry = Metrics(), CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    metrics.show(shown)
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_metrics_carry_the_same_figures_in_base_units() -> None:
    found = exposed(snapshot(busy_host(), neighbours=Neighbours(BLAMES, 0.2)))
    assert found["stealtime_vcpu_wait_ratio"][("web", "0")] == pytest.approx(0.5)
    assert found["stealtime_vcpu_wait_per_dispatch_seconds"][("db", "1")] == pytest.approx(0.003)
    assert found["stealtime_vcpu_wait_seconds_total"][("web", "0")] == pytest.approx(6.0)
    assert found["stealtime_vcpu_neighbour_wait_seconds_total"][("web", "guest db", "0")] == pytest.approx(0.096)
    assert found["stealtime_host_cpu_busy_ratio"][("1",)] == pytest.approx(0.03)
    assert found["stealtime_verdict"][("host", "host", "misplaced guests")] == 1
    assert sum(found["stealtime_verdict"].values()) == 4  # the host and three guests


def test_what_is_absent_has_no_series() -> None:
    found = exposed(snapshot(use([guest("a", unreadable=Absent(absent="no"))], memory=Absent(absent="no"))))
    assert "stealtime_vcpu_wait_ratio" not in found
    assert "stealtime_host_memory_available_ratio" not in found
    assert "stealtime_guest_queue_threads" not in found
    assert exposed(snapshot(busy_host()))["stealtime_guest_queue_threads"] == {("web",): 2.0}


def test_every_metric_has_a_unit_in_its_name() -> None:
    units = ("_ratio", "_seconds", "_seconds_total", "_threads", "_dispatches_total", "_samples_total", "_verdict")
    names = exposed(snapshot(busy_host(), neighbours=Neighbours(BLAMES, 0.2)))
    assert [name for name in names if not name.endswith(units)] == []


def dashboard() -> Any:
    return json.loads((resources.files("stealtime.capacity.watch") / "grafana.json").read_text("utf-8"))


def test_the_dashboard_asks_for_metrics_and_labels_that_there_are() -> None:
    found = exposed(snapshot(busy_host(), neighbours=Neighbours(BLAMES, 0.2)))
    labels = {
        name: set(re.findall(r'(\w+)="', line))
        for line in generate_latest(_registry()).decode().splitlines()
        if not line.startswith("#") and (name := re.split(r"[{ ]", line)[0])
    }
    board = dashboard()
    asked = {variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"}
    expressions = [(target["expr"], target["legendFormat"]) for panel in board["panels"] for target in panel["targets"]]
    for expression, legend in [*expressions, *((one, "") for one in asked)]:
        names = set(re.findall(r"\bstealtime_\w+", expression))
        assert names, expression
        assert names <= found.keys(), expression
        used = set(re.findall(r"{{(\w+)}}", legend)) | set(re.findall(r"(\w+)=~", expression))
        for name in names:
            assert used <= labels[name], (name, used)
    # Figures that no panel shows are forgotten ones.
    shown = " ".join(expression for expression, _ in expressions)
    unseen = {name for name in found if name not in shown and name.removesuffix("_total") not in shown}
    assert unseen == {
        "stealtime_host_cpu_guest_ratio", "stealtime_samples_total", "stealtime_vcpu_dispatches_total",
        "stealtime_vcpu_run_ratio", "stealtime_vcpu_wait_seconds_total",
    }  # fmt: skip


def _registry() -> CollectorRegistry:
    metrics, registry = Metrics(), CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    metrics.show(snapshot(busy_host(), neighbours=Neighbours(BLAMES, 0.2)))
    return registry


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9105", ("127.0.0.1", 9105)), ("9105", (LOOPBACK, 9105)), (":9105", (LOOPBACK, 9105)),
     ("[::1]:80", ("::1", 80)), ("192.0.2.1:9105", ("192.0.2.1", 9105))],
)  # fmt: skip
def test_addresses_are_on_loopback_unless_told_otherwise(text: str, address: tuple[str, int]) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "localhost:http", "1.2.3.4:0", "1.2.3.4:65536"])
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(UsageError, match=r"no address with a port|which is none from 1 to 65535"):
        read_address(text)


def test_metrics_are_served_and_the_port_is_free_afterwards() -> None:
    metrics = Metrics()
    metrics.show(snapshot(busy_host()))
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    with serving(metrics, (LOOPBACK, port)) as url, urllib.request.urlopen(url) as answer:  # noqa: S310
        assert b'stealtime_vcpu_wait_ratio{guest="web",vcpu="0"} 0.5' in answer.read()
    with pytest.raises(ConnectionRefusedError), socket.create_connection((LOOPBACK, port)):
        pass


def test_a_port_that_is_taken_is_said() -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        with (
            pytest.raises(StealtimeError, match="Address already in use") as caught,
            serving(Metrics(), (LOOPBACK, taken.getsockname()[1])),
        ):
            pass
    assert caught.value.hint == "choose another port"
