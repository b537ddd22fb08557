"""Both hosts lose power while the register keeps its records: what is told of the machine, and how it is had again."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from documents import hold_against_schema
from protect_command import protect
from two_hosts import HOSTS, TwoHosts, other

from stealtime.protect.status import MemberStatus

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]


def vm_file(hosts: TwoHosts, folder: Path, of_host: str = "a") -> Path:
    """Write the machine's file as the operator of a host has it."""
    path = folder / "counter.toml"
    vm = hosts.vm.model_copy(update={"identity": hosts.testbed.identity(of_host)})
    described = vm.model_dump(mode="json", by_alias=True, exclude_none=True)
    path.write_text("".join(f"{key} = {in_toml(value)}\n" for key, value in described.items()))
    return path


def in_toml(value: Any) -> str:
    """Give a value of JSON as TOML has it, on one line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {in_toml(inner)}' for key, inner in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(in_toml, value))}]"
    return json.dumps(value)


def test_what_is_gone_is_proved_and_booted_anew_when_told_to(protected_hosts: TwoHosts, tmp_path: Path) -> None:
    file, on_a = str(vm_file(protected_hosts, tmp_path)), protected_hosts.laboratory.host("a").prefix
    before = protected_hosts.settled()
    for name in HOSTS:
        protected_hosts.power_off(name)
    recover = ("recover", file, "--host", "a")
    protected_hosts.start_daemon("a")
    silent = protect(protected_hosts.state, *recover, prefix=on_a)
    assert (silent.returncode, "not judged, because b" in silent.stderr) == (1, True), silent.stderr
    refused = protect(protected_hosts.state, *recover, "--boot", prefix=on_a)
    assert refused.returncode == 1, "it may be on b"
    protected_hosts.start_daemon("b")
    gone = protect(protected_hosts.state, *recover, prefix=on_a)
    assert gone.returncode == 3, gone.stderr
    assert "its state is gone, as no process of it is left on a and b" in gone.stderr
    booted = protect(protected_hosts.state, *recover, "--boot", prefix=on_a)
    assert (booted.returncode, "booted anew on a" in booted.stderr) == (0, True), booted.stderr
    after = protected_hosts.settled()
    assert (after.host, after.term > before.term) == ("a", True)
    again = protect(protected_hosts.state, *recover, prefix=on_a)
    assert (again.returncode, "it has a member here" in again.stderr) == (0, True), again.stderr


def lose_the_host_while_the_standby_stands_still(hosts: TwoHosts) -> tuple[MemberStatus, int]:
    """Cut the power of the active host, whose daemon comes back; give who was active, and the standby's pid."""
    before = hosts.settled()
    standby = other(before.host)
    hosts.control(standby).fault("before-claim", "stop")
    standby_pid = hosts.pid(standby)
    hosts.power_off(before.host)
    hosts.start_daemon(before.host)
    hosts.stand_still(standby_pid)
    return before, standby_pid


def test_a_standby_that_lives_is_not_given_up(protected_hosts: TwoHosts, tmp_path: Path) -> None:
    before, standby_pid = lose_the_host_while_the_standby_stands_still(protected_hosts)
    file = vm_file(protected_hosts, tmp_path, before.host)
    standby = other(before.host)
    prefix = protected_hosts.laboratory.host(before.host).prefix
    told = protect(protected_hosts.state, "recover", str(file), "--boot", "--host", before.host, prefix=prefix)
    assert told.returncode == 0, told.stderr
    assert f"lives on {standby} and may have its state" in told.stderr
    os.kill(standby_pid, signal.SIGCONT)
    protected_hosts.await_running(standby)


def test_a_standby_that_an_emptied_register_does_not_name_is_found(protected_hosts: TwoHosts, tmp_path: Path) -> None:
    before, standby_pid = lose_the_host_while_the_standby_stands_still(protected_hosts)
    file = vm_file(protected_hosts, tmp_path, before.host)
    standby = other(before.host)
    for entry in protected_hosts.state.register.rglob("*"):
        if entry.is_file():
            entry.unlink()
    prefix = protected_hosts.laboratory.host(before.host).prefix

    def told() -> dict[str, Any]:
        asked = ("recover", str(file), "--boot", "--json", "--host", before.host)
        done = protect(protected_hosts.state, *asked, prefix=prefix)
        assert done.returncode == 0, done.stderr
        assert f"lives on {standby} and may have its state" in done.stderr
        document = json.loads(done.stdout)
        hold_against_schema(document, "recover")
        (machine,) = document["machines"]
        account = machine["account"]
        assert (account["verdict"], account["term"], account["members"]) == ("lives", None, [])
        hosts = {one["host"]: one for one in account["hosts"]}
        assert (hosts[before.host]["state"], hosts[standby]["state"]) == ("over", "lives")
        return dict(hosts[standby])

    assert told()["member"] is None, "it stands still"
    os.kill(standby_pid, signal.SIGCONT)
    protected_hosts.waiting.until(lambda: protected_hosts.status(standby), protected_hosts.log_tail)
    living = told()
    assert (living["role"], living["member"].partition("@")[0]) == ("standby", standby)
    # It waits for the operator's word, as the register has forgotten it.
    protected_hosts.control(standby).failover(force=True)
    protected_hosts.await_running(standby)
