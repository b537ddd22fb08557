"""What can be had again of machines whose members are gone, as after a power cut of both hosts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from stealtime.protect.questions import ask
from stealtime.protect.session import make_spec
from stealtime.protect.specification import (
    HostSpec,
    ImageSpec,
    MemberHost,
    MemberSpec,
    machine_spec,
    member_spec,
)
from stealtime.protect.state import HostFolder, State
from stealtime.protect.status import Said
from stealtime.protect.vm_file import VmFile
from stealtime.vocabulary.errors import StealtimeError

MACHINES = Path("/etc/stealtime/vms")
"""Where systemd's units look for machines."""

SCHEMA_VERSION = 1
"""Of what ``stealtime protect recover --json`` prints."""


class Trace(Said):
    """What became of a member, as ``crates/replicator/src/recover.rs`` tells it."""

    member: str
    host: str
    is_holder: bool
    state: Literal["over", "lives", "unknown"]
    reason: str | None


class HostTrace(Said):
    """Who lives on a host, of those that may have the machine."""

    host: str
    state: Literal["over", "lives", "unknown"]
    """``over``: nobody does."""
    member: str | None
    """Who does, in its own words; None: it does not say. So the next two."""
    term: int | None
    role: str | None
    reason: str | None
    """Why it is not known."""


class Account(Said):
    """What is known of a machine."""

    vm: str
    register_: str = Field(alias="register")
    term: int | None
    members: tuple[Trace, ...]
    """Whom the register names."""
    hosts: tuple[HostTrace, ...]
    """All that may have the machine: a register that was emptied, or restored from a backup, names nobody or others."""
    verdict: Literal["vacant", "gone", "lives", "unknown"]

    def words(self, file: Path) -> str:
        match self.verdict:
            case "vacant":
                return (
                    f"{self.vm}: nobody holds it, and no process of it is left on {_listed(self._names('over'))}; "
                    f"`stealtime protect start {file}` starts it"
                )
            case "gone":
                return (
                    f"{self.vm}: its state is gone, as no process of it is left on {_listed(self._names('over'))}; "
                    f"`stealtime protect recover {file} --boot` boots it anew"
                )
            case "lives":
                living = next(one for one in self.hosts if one.state == "lives")
                return (
                    f"{self.vm}: {living.member or 'a member'} lives on {living.host} and may have its state; see "
                    f"`stealtime protect status {self.vm}` there"
                )
        unknown = [one for one in self.hosts if one.state == "unknown"]
        reasons = "; ".join(f"{one.host} may have its state and cannot be asked: {one.reason}" for one in unknown)
        return (
            f"{self.vm}: not judged, because {reasons}. Have its daemon run (systemctl start stealtime-host), and ask "
            f"again; if {_listed(self._names('unknown'))} is lost for good, `stealtime protect start {file} --force` "
            "is your word for it"
        )

    def _names(self, state: str) -> list[str]:
        return [one.host for one in self.hosts if one.state == state]


class Recovered(Said):
    """What was found of one machine, and done."""

    file: str
    vm: str | None
    """None: its file cannot be read, or the machine not be asked for or booted; ``text`` says why."""
    is_here: bool
    """It has a member on this host: then no other host was asked."""
    account: Account | None
    """None also where the register could not be asked."""
    is_booted: bool
    text: str
    """The same in words."""


class RecoveryDocument(Said):
    """What ``stealtime protect recover --json`` prints."""

    schema_version: int = SCHEMA_VERSION
    machines: tuple[Recovered, ...]


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def account_of(vm: VmFile, state: State, host: str, *, prefix: Sequence[str] = ()) -> Account:
    """Find out whether anybody still has the state of a machine.

    Raises:
        StealtimeError: The register does not say who had it.
    """
    return _ask(make_spec(vm, state, host), prefix)


def was_stopped(vm: str, host: HostFolder) -> bool:
    """Tell whether a machine has ended in order, by the register that a host of this machine uses.

    Returns:
        False also where the register does not say.
    """
    try:
        told = HostSpec.model_validate_json(host.config.read_text())
        account = _ask(_spec_of_name(vm, host, told), ())
    except (OSError, ValidationError, StealtimeError):
        return False
    # Without a record nobody has ever had it, or the register was lost.
    return account.verdict == "vacant" and account.term is not None


def _spec_of_name(name: str, host: HostFolder, told: HostSpec) -> MemberSpec:
    """Give a specification whose name, host and register are right: nothing else of it is looked at."""
    vm, nothing = VmFile(name=name, program="counter"), ImageSpec(path=Path("/"), sha256="")
    machine = machine_spec(vm, "none", nothing, nothing, "")
    place = MemberHost(host=told.name, folder=host.member(name).path, qemu=told.qemu, register_folder=host.path)
    own = {"register_": told.register_, "identity": told.identity}
    return member_spec(vm, machine, place).model_copy(update=own)


def _ask(spec: MemberSpec, prefix: Sequence[str]) -> Account:
    told = ask("recover", spec, prefix)
    try:
        return Account.model_validate_json(told)
    except ValidationError as error:
        raise StealtimeError(f"the replicator told {told[:80]!r} of {spec.machine.name}") from error
