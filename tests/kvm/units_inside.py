"""Run in the first level under systemd: the units as an operator installs them, with their sandbox, and what they do.

This machine is the host ``a``; ``b`` is a second daemon on it, outside of any unit. Prints what was seen, in JSON.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["STEALTIME_PROTECT_TIMING"] = "emulated"
sys.path.append(str(Path(__file__).parents[1] / "rigs"))

from two_hosts import TIMING

from stealtime.protect.identity import make_identity
from stealtime.protect.state import STATE_VARIABLE
from stealtime.protect.systemd import write_units

STEALTIME = Path(sys.executable).parent / "stealtime"
FOLDER = Path("/etc/stealtime")
UNITS = Path("/etc/systemd/system")
STATE_OF_B = Path("/run/host-b")
REGISTER = Path("/run/register")
BRIDGE = "br0"
PORTS = {"a": 7460, "b": 7461}
PATIENCE_S = 240.0


def run(*argv: str) -> str:
    """Run a command, and give what it printed."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{argv} ended with {done.returncode}: {done.stdout}{done.stderr}\n{journal()}")
    return done.stdout


def journal() -> str:
    """Give what the units said last."""
    units = ("stealtime-host", "stealtime-leave", "stealtime-vm@counter")
    argv = ["journalctl", "--no-pager", "--lines=40", *(f"--unit={unit}" for unit in units)]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def toml(name: str) -> str:
    """Describe a host."""
    identity = make_identity(FOLDER / "keys", name, ["127.0.0.1"])
    return (
        f'name = "{name}"\nlisten = "tcp:127.0.0.1:{PORTS[name]}"\nbridge = "{BRIDGE}"\n'
        f'identity = {{ ca = "{identity.ca}", certificate = "{identity.certificate}", key = "{identity.key}" }}\n'
        f'register = {{ folder = "{REGISTER}" }}\n'
    )


def machine() -> str:
    """Describe the machine."""
    identity = make_identity(FOLDER / "keys", "a", ["127.0.0.1"])
    timing = ", ".join(f'{key} = "{value}"' for key, value in TIMING.items())
    hosts = "".join(
        f'[[standby_hosts]]\nname = "{name}"\nendpoint = "tcp:127.0.0.1:{port}"\n'
        for name, port in reversed(PORTS.items())
    )
    return (
        'name = "counter"\ninterval = "500ms"\naccelerator = "kvm"\n'
        'program = "counter"\nprogram_arguments = ["tcp=7000", "udp=7000"]\n'
        f"timing = {{ {timing} }}\n"
        f'identity = {{ ca = "{identity.ca}", certificate = "{identity.certificate}", key = "{identity.key}" }}\n'
        f'register = {{ folder = "{REGISTER}" }}\n'
        f'network = {{ bridge = "{BRIDGE}" }}\n{hosts}'
    )


def status(host: str) -> dict[str, Any] | None:
    """Give the status of the machine's member on a host."""
    environment = {**os.environ, **({STATE_VARIABLE: str(STATE_OF_B)} if host == "b" else {})}
    argv = [str(STEALTIME), "protect", "status", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    members = json.loads(done.stdout)["members"]
    return next((member for member in members if member["role"] != "gone"), None)


def await_that(what: str, find: Callable[[], Any]) -> Any:
    """Wait until something is found."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := find()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} does not come: a {status('a')}, b {status('b')}\n{journal()}")
        time.sleep(1.0)
    return found


def protected_on(host: str) -> dict[str, Any]:
    """Wait until the machine runs on a host and is protected."""

    def find() -> dict[str, Any] | None:
        found = status(host)
        return found if found is not None and found["role"] == "active" and found["protected"] else None

    return dict(await_that(f"a protected machine on {host}", find))


def main_pid(unit: str) -> str:
    """Give the process of a unit."""
    return run("systemctl", "show", "--value", "--property=MainPID", unit).strip()


def start_b() -> None:
    """Start the daemon of the second host."""
    file = FOLDER / "b.toml"
    file.write_text(toml("b"))
    environment = {**os.environ, STATE_VARIABLE: str(STATE_OF_B)}
    subprocess.Popen(
        [STEALTIME, "protect", "host", file],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=(FOLDER / "b.log").open("ab"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def main() -> None:
    """Do what an operator does, and see what comes of it."""
    # By which a unit of a machine knows its host.
    socket.sethostname("a")
    (FOLDER / "vms").mkdir(parents=True, exist_ok=True)
    REGISTER.mkdir(mode=0o700)
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "link", "set", BRIDGE, "up")
    # The carrier of a bridge with no other port than the guest's.
    run("ip", "link", "add", "port0", "type", "veth", "peer", "name", "far0")
    run("ip", "link", "set", "port0", "master", BRIDGE, "up")
    run("ip", "link", "set", "far0", "up")
    (FOLDER / "host.toml").write_text(toml("a"))
    (FOLDER / "vms" / "counter.toml").write_text(machine())
    for unit in write_units(UNITS):
        # Kernels and images are in the cache of who runs the tests.
        drop_in = unit.with_name(f"{unit.name}.d") / "cache.conf"
        drop_in.parent.mkdir(exist_ok=True)
        kept = {name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME") if name in os.environ}
        lines = "".join(f'Environment="{name}={value}"\n' for name, value in kept.items())
        drop_in.write_text(f"[Service]\n{lines}")
    run("systemctl", "daemon-reload")
    run("systemctl", "start", "stealtime-host", "stealtime-leave")
    start_b()
    seen: dict[str, Any] = {}
    run("systemctl", "start", "stealtime-vm@counter")
    seen["started"] = protected_on("a")
    # It stops as at a reboot: the machine moves, and has its standby in the other unit's sandbox then.
    run("systemctl", "stop", "stealtime-vm@counter")
    moved = protected_on("b")
    seen["moved"] = moved
    os.kill(moved["pid"], 9)
    seen["taken"] = await_that("a machine taken over on a", lambda: (it := status("a")) and it["role"] == "solo" and it)
    protected_on("a")
    # It goes away and comes back, and systemd starts the daemon anew.
    daemon_before = main_pid("stealtime-host")
    seen["upgraded"] = run(str(STEALTIME), "protect", "upgrade", "--timeout", "240s", "--", "true")
    seen["is_another_daemon"] = main_pid("stealtime-host") != daemon_before
    protected_on("a")
    run("systemctl", "stop", "stealtime-leave")
    # A host that is to go down takes no standby, until it is booted or the unit is started again.
    seen["left"] = await_that("a machine on b", lambda: (it := status("b")) and it["role"] in {"active", "solo"} and it)
    seen["refused"] = await_that("the refusal of a host that is left", lambda: "a is leaving" in journal())
    run("systemctl", "start", "stealtime-leave")
    seen["back"] = protected_on("b")
    seen["active"] = {
        unit: run("systemctl", "show", "--property=ActiveState,Result,NRestarts", unit).split()
        for unit in ("stealtime-host", "stealtime-vm@counter", "stealtime-leave")
    }
    seen["daemon"] = Path(f"/proc/{main_pid('stealtime-host')}/status").read_text()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
