"""Run in the first level: what the collector reads of guests under KVM, one of them without names of threads, one whose
program goes by another name.

The guests run their firmware, which looks for something to boot. What was read is printed as JSON in the last line.
"""

import asyncio
import json
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stealtime.capacity.collector import Collector
from stealtime.capacity.counters import monitor
from stealtime.capacity.document import HypervisorDocument
from stealtime.capacity.guest import Guest
from stealtime.capacity.sample import GuestSample
from stealtime.capacity.use import between
from stealtime.lab.platforms.kvm_counters import CountersLook
from stealtime.vocabulary.readings import Absent

_UP_S = 8.0
_LOOKS = 12
"""Threads without names are looked at again every few samples."""
_WATCHED_S = 5.0
QEMU = "qemu-system-x86_64"
OPTIONS = ["-nodefaults", "-no-user-config", "-display", "none", "-m", "64", "-smp", "2", "-machine", "q35,accel=kvm"]


def start(*options: str, shown_as: str = QEMU) -> subprocess.Popen[bytes]:
    return subprocess.Popen([shown_as, *OPTIONS, "-cpu", "host", *options], executable=shutil.which(QEMU))


def roles(sample: GuestSample) -> dict[str, Any]:
    vcpus = sorted((thread.vcpu, thread.tid) for thread in sample.threads if thread.vcpu is not None)
    why = None if sample.unreadable is None else sample.unreadable.absent
    return {"vcpus": vcpus, "threads": len(sample.threads), "unreadable": why}


def exits(look: CountersLook | Absent) -> list[int] | str:
    return look.absent if isinstance(look, Absent) else [counts["exits"] for counts in look.vcpus.values()]


def counted(guest: Guest, before: monitor.MonitorLook) -> dict[str, Any]:
    gained = monitor.between(before, asyncio.run(monitor.look(guest)))
    return HypervisorDocument.of(gained, _WATCHED_S).model_dump(mode="json")


def main() -> None:
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "qmp.sock"
        named = start("-name", "guest=named,debug-threads=on", "-qmp", f"unix:{path},server=on,wait=off")
        nameless = start("-name", "nameless")
        renamed = start("-name", "renamed,debug-threads=on", shown_as="/opt/vendor/firecracker")
        for process in (named, nameless, renamed):
            stack.callback(process.wait)
            stack.callback(process.kill)
        time.sleep(_UP_S)
        collector = stack.enter_context(Collector())
        for _ in range(_LOOKS):
            before = collector.sample()
            time.sleep(1.0)
        by_pid = {sample.guest.pid: sample.guest for sample in before.guests.values()}
        looks = {pid: asyncio.run(monitor.look(guest)) for pid, guest in by_pid.items()}
        in_debugfs = monitor.read_debugfs(by_pid[named.pid])
        time.sleep(_WATCHED_S)
        after = collector.sample()
        told: dict[str, Any] = {
            name: roles(after.guests[by_pid[process.pid].key]) | counted(by_pid[process.pid], looks[process.pid])
            for name, process in (("named", named), ("nameless", nameless), ("renamed", renamed))
        }
        told["exits"] = {"qmp": exits(looks[named.pid].counters), "debugfs": exits(in_debugfs)}
        use = between(before, after)
        told["run_percent"] = [one.run_percent for one in use.guests[by_pid[named.pid].key].vcpus.values()]
    print(json.dumps(told))


main()
