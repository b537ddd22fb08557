"""The same figures for Prometheus, with its base units (seconds, ratios from 0 to 1) in their names.

What is absent has no series: it is never exported as 0.
"""

import errno
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import get_args

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as MetricsSource

from stealtime.capacity.advice import Advice
from stealtime.capacity.figures import net_wait_percent
from stealtime.capacity.rules import Verdict
from stealtime.capacity.use import Figure, GuestUse, Use, run_percent
from stealtime.capacity.watch.state import Snapshot
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.readings import Absent

LOOPBACK = "127.0.0.1"
_HIGHEST_PORT = 65535


class Metrics(MetricsSource):
    """Gives the latest snapshot as metrics."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None

    def show(self, snapshot: Snapshot) -> None:
        with self._lock:
            self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            snapshot = self._snapshot
        if snapshot is None:
            return []
        last = snapshot.uses[-1]
        return [*_host(last), *_guests(last), *_vcpus(last), *_totals(snapshot), *_verdicts(snapshot)]


def _host(use: Use) -> Iterator[Metric]:
    shares = {
        "busy": "busy, with what guests ran",
        "guest": "running instructions of guests under KVM",
        "interrupts": "in interrupts and softirqs",
        "steal": "taken by the host's own host",
    }
    for name, what in shares.items():
        family = GaugeMetricFamily(f"stealtime_host_cpu_{name}_ratio", f"Share of a CPU's time {what}.", labels=["cpu"])
        for cpu, one in {} if isinstance(use.cpus, Absent) else use.cpus.items():
            _add(family, [str(cpu)], getattr(one, f"{name}_percent"), 0.01)
        yield family
    memory = GaugeMetricFamily("stealtime_host_memory_available_ratio", "Share of the host's memory that is available.")
    _add(memory, [], use.memory_available_percent, 0.01)
    yield memory
    pressure = GaugeMetricFamily(
        "stealtime_host_pressure_ratio", "Share of the time in which some task was held up (PSI).", labels=["resource"]
    )
    for resource, figure in use.pressure_percent.items():
        _add(pressure, [resource], figure, 0.01)
    yield pressure


def _guests(use: Use) -> Iterator[Metric]:
    def family(name: str, what: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"stealtime_guest_{name}", what, labels=["guest"])

    emulator = family("emulator_run_ratio", "CPUs that the guest's emulator used, without its virtual CPUs and I/O.")
    io = family("io_run_ratio", "CPUs that the guest's threads for I/O used.")
    throttled = family("throttled_ratio", "Share of the time in which a quota held its virtual CPUs back.")
    queue = family("queue_threads", "Threads that wait for a CPU inside the guest, as its own kernel says.")
    for one in use.guests.values():
        label = [one.guest.name]
        _add(emulator, label, one.unreadable or run_percent(one.emulator), 0.01)
        _add(io, label, one.unreadable or run_percent(one.io), 0.01)
        _add(throttled, label, one.throttled_percent, 0.01)
        if one.view is not None and not isinstance(one.view, Absent):
            _add(queue, label, one.view.queue, 1.0)
    yield from (emulator, io, throttled, queue)


def _vcpus(use: Use) -> Iterator[Metric]:
    def family(name: str, what: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"stealtime_vcpu_{name}", what, labels=["guest", "vcpu"])

    run = family("run_ratio", "Share of the time in which a virtual CPU ran.")
    wait = family("wait_ratio", "Share of the time in which it waited for a CPU of the host, without its quota.")
    per_dispatch = family("wait_per_dispatch_seconds", "How long it waited each time before it ran.")
    for one in _readable(use):
        for number, vcpu in one.vcpus.items():
            label = [one.guest.name, str(number)]
            _add(run, label, vcpu.run_percent, 0.01)
            _add(wait, label, net_wait_percent(one, vcpu), 0.01)
            _add(per_dispatch, label, vcpu.wait_per_dispatch_ns, 1e-9)
    yield from (run, wait, per_dispatch)


def _totals(snapshot: Snapshot) -> Iterator[Metric]:
    def family(name: str, what: str) -> CounterMetricFamily:
        what = f"{what}, since the watching began."
        return CounterMetricFamily(f"stealtime_vcpu_{name}", what, labels=["guest", "vcpu"])

    run, wait = family("run_seconds", "How long a virtual CPU ran"), family("wait_seconds", "How long it waited")
    dispatches = family("dispatches", "How often it was put on a CPU")
    for (guest, number), (run_s, wait_s, count) in snapshot.totals.items():
        label = [guest.name, str(number)]
        run.add_metric(label, run_s)
        wait.add_metric(label, wait_s)
        dispatches.add_metric(label, count)
    yield from (run, wait, dispatches)
    neighbours = CounterMetricFamily(
        "stealtime_vcpu_neighbour_wait_seconds",
        "How long a virtual CPU waited for this neighbour, within the windows that were traced.",
        labels=["guest", "vcpu", "neighbour"],
    )
    for (guest_name, number, neighbour), wait_s in snapshot.neighbour_wait_s.items():
        neighbours.add_metric([guest_name, str(number), neighbour], wait_s)
    yield neighbours
    samples = CounterMetricFamily("stealtime_samples", "Readings of all counters, since the watching began.")
    samples.add_metric([], snapshot.samples)
    yield samples


def _verdicts(snapshot: Snapshot) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "stealtime_verdict",
        "1 for the verdict that holds of this host or guest, 0 for the others.",
        labels=["subject", "kind", "verdict"],
    )
    for advice in (snapshot.host, *snapshot.guests.values()):
        for verdict in get_args(Verdict):
            family.add_metric([*_named(advice), verdict], float(advice.judgement.verdict == verdict))
    yield family


def _named(advice: Advice) -> list[str]:
    guest = advice.judgement.guest
    return [advice.judgement.subject, "host" if guest is None else guest.kind]


def _readable(use: Use) -> Iterator[GuestUse]:
    return (one for one in use.guests.values() if one.unreadable is None)


def _add(family: GaugeMetricFamily, labels: list[str], figure: Figure, unit: float) -> None:
    if not isinstance(figure, Absent):
        family.add_metric(labels, figure * unit)


def read_address(text: str) -> tuple[str, int]:
    """Read where to serve: ``127.0.0.1:9105``, ``[::1]:9105``, or a port alone, which is served on loopback.

    Raises:
        UsageError: It is no such address.
    """
    host, _, port = text.rpartition(":")
    if port.isdigit() and not 0 < int(port) <= _HIGHEST_PORT:
        raise UsageError(
            f"--prometheus: {text!r} has the port {port}, which is none from 1 to {_HIGHEST_PORT}",
            hint=f"write {LOOPBACK}:9105, or 9105 alone",
        )
    if not port.isdigit():
        raise UsageError(f"--prometheus: {text!r} is no address with a port", hint=f"write {LOOPBACK}:9105")
    return host.strip("[]") or LOOPBACK, int(port)


@contextmanager
def serving(metrics: Metrics, address: tuple[str, int]) -> Iterator[str]:
    """Serve metrics over HTTP while the context lasts; give the address.

    Raises:
        StealtimeError: It cannot be had: the port is taken, or the host has no such address.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    host, port = address
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        hint = "choose another port" if error.errno == errno.EADDRINUSE else "choose an address of this host"
        why = error.strerror or error
        raise StealtimeError(f"metrics cannot be served at {host}:{port}: {why}", hint=hint) from error
    try:
        yield f"http://{host}:{port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
