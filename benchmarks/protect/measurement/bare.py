"""A bare QEMU with the guest that is also protected: no member, no library, QMP by hand.

Its memory is QEMU's own, as without further options. Its network card is plugged into nothing.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from stealtime.lab.platforms.process import RUN_MARK, run_mark
from stealtime.lab.platforms.qemu_program import find_qemu
from stealtime.protect.specification import MachineSpec

_ANSWERS_WITHIN_S = 10.0
_BOOTS_WITHIN_S = 120.0
SETTLES_S = 1.0


@dataclass(frozen=True)
class Emulator:
    """Which QEMU, and what its guest's network card is plugged into."""

    command: tuple[str, ...]
    netdev: str = "hubport,hubid=0"
    """Without its name, ``net0``; the default is nothing at all."""


class MonitorError(Exception):
    """QEMU refused a command, does not answer, or is gone."""


class BareQemu:
    """A context manager: QEMU runs inside.

    Args:
        machine: What a member would be told.
        folder: For its log.
        name: Of the log.
        incoming: Wait there for a migration instead of booting.
        more: Further arguments.
        emulator: Another QEMU than the one that members run.
    """

    def __init__(
        self,
        machine: MachineSpec,
        folder: Path,
        name: str,
        incoming: str | None = None,
        more: Sequence[str] = (),
        emulator: Emulator | None = None,
    ) -> None:
        self.name = name
        self.emulator = emulator if emulator is not None else Emulator((find_qemu(),))
        self.log = folder / f"{name}.log"
        self.console = folder / f"{name}.console"
        if incoming is None:
            self.console.unlink(missing_ok=True)
        ours, qemus = socket.socketpair()
        argv = [*self.emulator.command, *_arguments(machine, qemus.fileno(), self.console)]
        argv += ["-netdev", f"{self.emulator.netdev},id=net0", *more]
        argv += ["-incoming", incoming] if incoming is not None else []
        with self.log.open("wb") as log:
            self.process = psutil.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[qemus.fileno()],
                env={**os.environ, RUN_MARK: run_mark()},
                start_new_session=True,
            )
        qemus.close()
        self.monitor = Monitor(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.monitor.close()

    def await_console(self, text: str, within_s: float) -> None:
        """Wait until the guest has written something to its console.

        Raises:
            MonitorError: It does not.
        """
        deadline = time.monotonic() + within_s
        while not (self.console.exists() and text in self.console.read_text("utf-8", "replace")):
            if time.monotonic() > deadline:
                raise MonitorError(f"the guest did not write {text!r} within {within_s:g} s: {self.log_tail()}")
            time.sleep(0.05)

    def log_tail(self, lines: int = 6) -> str:
        """Give the end of what it printed, and of what its guest did."""
        said = [
            path.read_text("utf-8", "replace").splitlines()[-lines:]
            for path in (self.log, self.console)
            if path.exists()
        ]
        ended = "" if self.process.poll() is None else f"ended with {self.process.returncode}"
        return "\n".join([*(line for part in said for line in part), *([ended] if ended else [])])


def boot_counter(machine: MachineSpec, folder: Path, emulator: Emulator | None = None) -> BareQemu:
    """Boot the guest that counts, and wait until it answers and has come to rest.

    Raises:
        MonitorError: It does not come up.
    """
    qemu = BareQemu(machine, folder, "bare", emulator=emulator)
    try:
        qemu.await_console("the counter answers", _BOOTS_WITHIN_S)
    except MonitorError:
        qemu.end()
        raise
    time.sleep(SETTLES_S)
    return qemu


class Monitor:
    """QMP, one command at a time, with as little between us and QEMU as Python allows: we time what it does."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""
        self.events: list[dict[str, Any]] = []
        """All that came since they were last cleared; ``timestamp`` is QEMU's own, of the realtime clock."""
        self._next(_ANSWERS_WITHIN_S)
        self.execute("qmp_capabilities")

    def execute(self, command: str, within_s: float = _ANSWERS_WITHIN_S, **arguments: Any) -> Any:
        """Carry out a command and give its result.

        Raises:
            MonitorError: QEMU refuses, does not answer in time, or is gone; its own words.
        """
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        return self.execute_plainly(command, named, within_s)

    def execute_plainly(self, command: str, arguments: Mapping[str, Any], within_s: float = _ANSWERS_WITHIN_S) -> Any:
        """Carry out a command whose arguments are named as QEMU names them.

        Raises:
            MonitorError: As of :meth:`execute`.
        """
        request: dict[str, Any] = {"execute": command}
        if arguments:
            request["arguments"] = dict(arguments)
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        deadline = time.monotonic() + within_s
        while True:
            answer = self._next(deadline - time.monotonic(), command)
            if "event" in answer:
                self.events.append(answer)
            elif "error" in answer:
                raise MonitorError(f"QEMU refused {command}: {answer['error']['desc']}")
            elif "return" in answer:
                return answer["return"]

    def listen(self, seconds: float) -> None:
        """Take up events for a while.

        Raises:
            MonitorError: QEMU is gone.
        """
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                self.events.append(self._next(left_s))
            except TimeoutError:
                return

    def await_event(self, name: str, within_s: float, **data: Any) -> dict[str, Any]:
        """Wait for an event with this data, unless it came already.

        Raises:
            MonitorError: It does not come, or QEMU is gone.
        """
        deadline = time.monotonic() + within_s
        while True:
            for event in self.events:
                if event["event"] == name and data.items() <= event.get("data", {}).items():
                    return event
            try:
                self.events.append(self._next(deadline - time.monotonic()))
            except TimeoutError:
                raise MonitorError(f"QEMU did not tell {name} {data or ''} within {within_s:g} s") from None

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def _next(self, within_s: float, command: str | None = None) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            self._connection.settimeout(max(within_s, 0.001))
            try:
                received = self._connection.recv(1 << 16)
            except TimeoutError:
                if command is None:
                    raise
                raise MonitorError(f"QEMU gave no answer to {command} in time") from None
            except OSError as error:
                raise MonitorError(f"QEMU's monitor: {error.strerror}") from error
            if not received:
                raise MonitorError(f"QEMU closed its monitor{f' at {command}' if command else ''}")
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))


def event_us(event: dict[str, Any]) -> int:
    """Give QEMU's own time of an event, in microseconds."""
    return int(event["timestamp"]["seconds"]) * 1_000_000 + int(event["timestamp"]["microseconds"])


def stops_us(events: Sequence[dict[str, Any]]) -> list[int]:
    """Give how long a guest stood each time, from ``STOP`` to the following ``RESUME``, in microseconds."""
    stood, stopped_us = [], None
    for event in events:
        if event["event"] == "STOP":
            stopped_us = event_us(event)
        elif event["event"] == "RESUME" and stopped_us is not None:
            stood.append(event_us(event) - stopped_us)
            stopped_us = None
    return stood


def _arguments(machine: MachineSpec, monitor: int, console: Path) -> list[str]:
    return [
        *("-name", "debug-threads=on"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-vga", "none"),
        *("-machine", f"{machine.machine},vmport=off", "-accel", machine.accelerator, "-cpu", machine.cpu),
        *("-smp", f"cpus={machine.vcpus}", "-m", f"size={machine.memory_bytes}B"),
        *("-chardev", f"file,id=console,append=on,path={console}", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=qmp,fd={monitor}", "-mon", "chardev=qmp,mode=control"),
        *("-device", f"virtio-net-pci,id=nic0,netdev=net0,mac={machine.mac},romfile="),
        *(("-global", "virtio-pci.disable-modern=on") if machine.virtio == "legacy" else ()),
        *(argument for device in machine.devices for argument in ("-device", device)),
        *(("-kernel", str(machine.kernel.path)) if machine.kernel is not None else ()),
        *(("-initrd", str(machine.initramfs.path)) if machine.initramfs is not None else ()),
        *("-append", machine.kernel_arguments),
    ]
