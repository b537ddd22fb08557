"""Run in the first level under systemd: the exporter's unit as it is installed, beside a guest that KVM really runs.

Prints what was seen, in JSON.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEALTIME = Path(sys.executable).parent / "stealtime"
UNIT = "stealtime-exporter"
UNIT_FILE = Path(f"/etc/systemd/system/{UNIT}.service")
KEPT = Path(f"/var/lib/{UNIT}")
METRICS = "http://127.0.0.1:9105/metrics"
QEMU = "qemu-system-x86_64"
OPTIONS = ["-nodefaults", "-no-user-config", "-display", "none", "-m", "64", "-machine", "q35,accel=kvm"]
RENAMED = "/opt/vendor/firecracker"
"""A program that nothing but its descriptors tells to have a guest."""
PATIENCE_S = 120.0


def run(*argv: str | Path) -> str:
    """Run a command, and give what it printed."""
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{argv} ended with {done.returncode}: {done.stdout}{done.stderr}\n{journal()}")
    return done.stdout


def journal() -> str:
    """Give what the unit said last."""
    argv = ["journalctl", "--no-pager", "--lines=40", f"--unit={UNIT}"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def await_that(what: str, find: Callable[[], Any]) -> Any:
    """Wait until something is found."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := find()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} does not come\n{journal()}")
        time.sleep(1.0)
    return found


def metrics() -> dict[str, float]:
    """Give the series that are served; none where nobody answers."""
    try:
        with urllib.request.urlopen(METRICS, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    series = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in series if name}


def of_the_guest(name: str) -> dict[str, float]:
    """Give the series of the guest that begin so."""
    return {key: value for key, value in metrics().items() if key.startswith(name) and '"named"' in key}


def properties(*names: str) -> dict[str, str]:
    """Give what systemd knows of the unit."""
    lines = run("systemctl", "show", f"--property={','.join(names)}", UNIT).splitlines()
    return dict(line.split("=", 1) for line in lines)


def main() -> None:
    """Do what an operator does, and see what comes of it."""
    # The tree may be where only its owner looks; an operator installs where every user does. Nothing of it is written
    # to the host.
    for folder in STEALTIME.parents:
        folder.chmod(folder.stat().st_mode | 0o055)
    UNIT_FILE.parent.mkdir(parents=True, exist_ok=True)
    UNIT_FILE.write_text(run(STEALTIME, "watch", "--unit"))
    guests = [
        subprocess.Popen([QEMU, *OPTIONS, "-cpu", "host", "-name", "guest=named,debug-threads=on"]),
        subprocess.Popen([RENAMED, *OPTIONS, "-cpu", "host"], executable=shutil.which(QEMU)),
    ]
    seen: dict[str, Any] = {}
    try:
        run("systemctl", "daemon-reload")
        run("systemctl", "start", UNIT)
        pid = properties("MainPID")["MainPID"]
        seen["verdicts"] = await_that("a verdict of the guest", lambda: of_the_guest("stealtime_guest_verdict"))
        seen["run_s"] = of_the_guest("stealtime_vcpu_run_seconds_total")
        seen["info"] = [name for name in metrics() if name.startswith("stealtime_guest_info")]
        seen["memory_bytes"] = metrics()["process_resident_memory_bytes"]
        seen["status"] = Path(f"/proc/{pid}/status").read_text()
        # It is started anew where it dies, with what it has kept.
        os.kill(int(pid), signal.SIGKILL)
        await_that("another exporter", lambda: properties("MainPID")["MainPID"] not in {"0", pid})
        seen["again"] = await_that("its figures", lambda: of_the_guest("stealtime_vcpu_run_seconds_total"))
        seen["active"] = properties("ActiveState", "NRestarts")
        # A line for the host and each guest a minute.
        seen["kept"] = await_that("a minute that is kept", lambda: [one.name for one in KEPT.resolve().iterdir()])
        begun = time.monotonic()
        run("systemctl", "stop", UNIT)
        seen["stopped"] = {**properties("ActiveState", "Result"), "after_s": round(time.monotonic() - begun, 1)}
        seen["history"] = json.loads(run(STEALTIME, "advise", "--history", KEPT, "--json"))
    finally:
        for guest in guests:
            guest.kill()
            guest.wait()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
