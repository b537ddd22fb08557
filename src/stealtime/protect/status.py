"""The status of a member, and whether its machine is protected."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from stealtime.protect.vm_file import Mode
from stealtime.vocabulary.errors import ExitCode, weightiest

SCHEMA_VERSION = 1
"""Of what ``stealtime protect status --json`` prints."""

Role = Literal["starting", "solo", "active", "stopped", "standby", "fenced", "gone"]
"""As ``crates/replicator/src/status.rs`` names them; ``gone`` is ours, for a folder that nobody lives in."""

RUNS_NOW: frozenset[Role] = frozenset({"solo", "active"})
"""Of a member whose guest may send."""
RUNNING_ROLES: frozenset[Role] = frozenset({"starting", "solo", "active", "stopped"})
"""Of the member that has the machine."""


class Said(BaseModel):
    """Part of what a member says; one of a newer version may say more."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )


class FullCopy(Said):
    """How far the first copy of all memory is."""

    done_bytes: int
    total_bytes: int


class Peer(Said):
    """Whom the machine would go to."""

    name: str
    endpoint: str


class Alarm(Said):
    """Something that is in need of somebody, as ``crates/replicator/src/alarms.rs`` names it."""

    kind: str
    text: str


REFUSES = " refuses: "
"""In the middle of a warning: a standby host does not take the machine, and says why."""


class MemberStatus(Said):
    """A member, now."""

    vm: str
    host: str
    member: str | None = None
    """This life of it, as the register names it."""
    role: Role
    protected: bool
    """Whether its host may die now without loss of what was acknowledged."""
    mode: Mode | None = None
    term: int = 0
    epoch: int = 0
    """The last that was captured; on a standby: staged."""
    acknowledged: int = 0
    released: int = 0
    lag_epochs: int = 0
    interval_ns: int = 0
    last_pause_ns: int = 0
    pause_p50_ns: int = 0
    pause_p99_ns: int = 0
    hold_p50_ns: int = 0
    hold_p99_ns: int = 0
    guest_time_lost_ns: int = 0
    """How long the guest stood since it runs there, and its clock with it, but for the pauses of epochs that were never
    shipped: those are not in it."""
    guest_time_loss_ppm: float = 0.0
    """How much of each second, over the last epochs."""
    held_back_ppm: float = 0.0
    """Of that, because the standby could not follow."""
    qemu_events: dict[str, int] = {}
    """How often each of QEMU's events came."""
    bytes_per_s: float = 0.0
    dirty_pages_per_s: float = 0.0
    held_frames: int = 0
    held_bytes: int = 0
    full_copy: FullCopy | None = None
    disks: tuple[str, ...] = ()
    """The images of its disks there."""
    standby: Peer | None = None
    tracker: str | None = None
    device_state: str | None = None
    register_: str | None = Field(default=None, alias="register")
    register_age_ns: int | None = None
    """How long ago it gave an answer."""
    register_went_back: int = 0
    """How often the register was found to have gone back to an older state."""
    refused_messages: int = 0
    since_unix_ns: int | None = None
    pid: int | None = None
    qemu_pid: int | None = None
    fenced_reason: str | None = None
    resume_ns: int | None = None
    """How long the last failover took here, from the decision until the guest ran."""
    certificates_end_in_s: int | None = None
    """How long this host's certificates are good for, in seconds; negative: how long they have not been."""
    alarms: tuple[Alarm, ...] = ()
    """What somebody must see to, though the machine may run and be protected."""
    warnings: tuple[str, ...] = ()
    """In sentences; among them why standby hosts refuse the machine."""


class UnheardHost(Said):
    """A host that could not be asked."""

    host: str
    reason: str
    hint: str | None = None


class StatusDocument(Said):
    """What ``stealtime protect status --json`` prints."""

    schema_version: int = SCHEMA_VERSION
    members: tuple[MemberStatus, ...]
    unheard: tuple[UnheardHost, ...] = ()
    """Of the hosts that were asked over ssh."""

    def is_protected(self) -> bool:
        """Tell whether each machine that has a member here is protected."""
        machines = {member.vm for member in self.members}
        return bool(machines) and machines == {member.vm for member in self.members if member.protected}

    def exit_code(self) -> ExitCode:
        """Tell a program how the machines stand: what is not protected comes before an alarm."""
        return weightiest(
            ExitCode.FINE if self.is_protected() else ExitCode.THRESHOLD,
            ExitCode.FAILED if self.unheard else ExitCode.FINE,
            ExitCode.NOT_JUDGED if any(member.alarms for member in self.members) or self.run_twice() else ExitCode.FINE,
        )

    def run_twice(self) -> dict[str, tuple[str, ...]]:
        """Give the hosts of each machine that runs on more than one: one of them has not heard that it is over."""
        hosts: dict[str, list[str]] = {}
        for member in self.members:
            if member.role in RUNS_NOW:
                hosts.setdefault(member.vm, []).append(member.host)
        return {vm: tuple(names) for vm, names in hosts.items() if len(set(names)) > 1}
