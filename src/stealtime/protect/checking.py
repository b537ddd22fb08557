"""What would keep a machine from being started and protected, looked at before the start."""

from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from stealtime.protect.disk_links import as_opened, default_folder
from stealtime.protect.questions import ask
from stealtime.protect.session import check_destination, make_spec
from stealtime.protect.state import State
from stealtime.protect.status import Said
from stealtime.protect.vm_file import VmFile
from stealtime.vocabulary.errors import ExitCode, StealtimeError

SCHEMA_VERSION = 1
"""Of what ``stealtime protect doctor --json`` prints."""

_NETWORK_DEVICES = Path("/sys/class/net")


class StartCheck(Said):
    """One thing that was looked at, as ``crates/replicator/src/check.rs`` tells it."""

    subject: str
    state: Literal["fine", "refused", "not-judged"]
    text: str
    hint: str | None


class StartCheckDocument(Said):
    """What ``stealtime protect doctor --json`` prints."""

    schema_version: int = SCHEMA_VERSION
    vm: str
    checks: tuple[StartCheck, ...]

    @property
    def exit_code(self) -> ExitCode:
        states = {check.state for check in self.checks}
        if "refused" in states:
            return ExitCode.THRESHOLD
        return ExitCode.NOT_JUDGED if "not-judged" in states else ExitCode.FINE


def check_machine(vm: VmFile, state: State, host: str, *, is_local: bool = False) -> StartCheckDocument:
    """Look at all that a start of a machine here would ask for; nothing is started or changed.

    Args:
        vm: The machine.
        state: Where members live.
        host: The name of this host.
        is_local: This machine is to play both hosts.

    Raises:
        StealtimeError: The replicator cannot be asked.
    """
    checks = []
    try:
        check_destination(vm, host, is_local=is_local)
    except StealtimeError as error:
        checks.append(_refused("standby hosts", error))
    if (bridge := vm.network.bridge) is not None:
        checks.append(_bridge(bridge))
    try:
        spec = make_spec(vm, state, host)
    except StealtimeError as error:
        return StartCheckDocument(vm=vm.name, checks=(*checks, _refused("machine", error)))
    checks.append(_fine("machine", f"{spec.machine.machine}, {spec.qemu}, and there is memory for it"))
    daemon = state.host(host)
    images = zip((disk.name for disk in spec.machine.disks), spec.disk_images, strict=True)
    opened = tuple(as_opened(daemon.config, default_folder(state.path, host), vm.name, images))
    told = ask("check", spec.model_copy(update={"disk_images": opened}))
    try:
        checks += TypeAdapter(list[StartCheck]).validate_json(told)
    except ValidationError as error:
        raise StealtimeError(f"the replicator told {told[:80]!r} of {vm.name}") from error
    return StartCheckDocument(vm=vm.name, checks=tuple(checks))


def _fine(subject: str, text: str) -> StartCheck:
    return StartCheck(subject=subject, state="fine", text=text, hint=None)


def _refused(subject: str, error: StealtimeError) -> StartCheck:
    return StartCheck(subject=subject, state="refused", text=error.message, hint=error.hint)


def _bridge(name: str) -> StartCheck:
    subject = "bridge"
    if (_NETWORK_DEVICES / name / "bridge").is_dir():
        return _fine(subject, f"{name} is there")
    text = f"there is no bridge {name} on this host"
    return StartCheck(
        subject=subject, state="refused", text=text, hint=f"ip link add {name} type bridge; ip link set {name} up"
    )
