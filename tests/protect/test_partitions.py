"""Members that cannot reach each other, the register, their clients, or several of these; and a register that is gone.

One row of the table for each way to be cut off, all on one machine, which is protected again after each.
"""

import os
import signal
import time
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from truth import some_of
from two_hosts import await_that, lives, other
from watched import Watched

from stealtime.hosts.laboratory import NetworkName
from stealtime.hosts.network import Direction

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

SILENCE_S = 1.0
"""How long nobody is heard before it is believed; that nothing comes later either, the other evidence tells."""

SERVING = ("Unprotected", "Syncing", "Naming", "Protected")
"""States in which the guest runs, and is heard as soon as a lease or an acknowledgement is there."""

Member = Literal["active", "standby"]
Meanwhile = Literal["protected", "one serves", "active serves", "standby serves", "nobody serves", "anything safe"]
Cut = tuple[Member, NetworkName, Direction]


@dataclass(frozen=True)
class Partition:
    """What is cut off, and what is promised as long as that lasts."""

    name: str
    cuts: tuple[Cut, ...]
    meanwhile: Meanwhile
    arbiter: Literal["lives", "dead", "stopped"] = "lives"
    kills: Member | None = None


LINK: Cut = ("active", "replication", "both")
REGISTER_OF_ACTIVE: Cut = ("active", "register", "both")
REGISTER_OF_STANDBY: Cut = ("standby", "register", "both")

PARTITIONS = (
    Partition("link", (LINK,), "one serves"),
    Partition("link_from_active", (("active", "replication", "from"),), "one serves"),
    Partition("link_to_active", (("active", "replication", "to"),), "one serves"),
    Partition("active_alone", (REGISTER_OF_ACTIVE, LINK), "standby serves"),
    Partition(
        "active_without_anything",
        (("active", "clients", "both"), REGISTER_OF_ACTIVE, LINK),
        "standby serves",
    ),
    Partition("active_asks_unheard", (("active", "register", "from"), LINK), "standby serves"),
    # What it asks for may be granted without its knowing: then nobody serves until it knows.
    Partition("active_asks_unanswered", (("active", "register", "to"), LINK), "anything safe"),
    Partition("standby_alone", (REGISTER_OF_STANDBY, LINK), "active serves"),
    Partition(
        "standby_without_anything",
        (("standby", "clients", "both"), REGISTER_OF_STANDBY, LINK),
        "active serves",
    ),
    Partition("registers", (REGISTER_OF_ACTIVE, REGISTER_OF_STANDBY), "protected"),
    Partition("clients", (("active", "clients", "both"),), "protected"),
    Partition("all", (REGISTER_OF_ACTIVE, REGISTER_OF_STANDBY, LINK), "nobody serves"),
    Partition("arbiter_dead", (), "protected", arbiter="dead"),
    Partition("arbiter_dead_then_link", (LINK,), "nobody serves", arbiter="dead"),
    Partition("arbiter_dead_then_active", (), "nobody serves", arbiter="dead", kills="active"),
    Partition("arbiter_dead_then_standby", (), "nobody serves", arbiter="dead", kills="standby"),
    # It carries out what it was asked before it stood still, when those who asked have given it up.
    Partition("arbiter_stopped_then_link", (LINK,), "nobody serves", arbiter="stopped"),
)


class Course:
    """One partition of a machine that is protected, from its beginning to its end."""

    def __init__(self, watched: Watched, partition: Partition) -> None:
        self.watched = watched
        self.hosts = watched.hosts
        self.partition = partition
        before = self.hosts.settled()
        assert before.pid is not None
        self.before = before
        self.names: dict[Member, str] = {"active": before.host, "standby": other(before.host)}
        self.pids: dict[Member, int] = {"active": before.pid, "standby": self.hosts.pid(other(before.host))}
        self.register_deadline_s = self.hosts.vm.timing.register_deadline_ns / 1e9

    def begin(self) -> None:
        """Cut; the link last, as who has lost it shall not find the register still there. Then kill."""
        self.begun_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if self.partition.arbiter == "dead":
            self.watched.etcd.kill()
        elif self.partition.arbiter == "stopped":
            os.kill(self.watched.etcd.pid, signal.SIGSTOP)
        for member, network, direction in self.partition.cuts:
            self.hosts.laboratory.cut(self.names[member], network, direction)
        if self.partition.kills is not None:
            self.hosts.kill(self.pids[self.partition.kills])

    def hold(self) -> None:
        """See that what is promised meanwhile holds."""
        match self.partition.meanwhile:
            case "protected":
                self._stays_protected()
            case "one serves":
                self._await_serving(*self.pids)
            case "active serves":
                self._await_serving("active")
            case "standby serves":
                self._await_serving("standby")
                self._await_stopped()
            case "nobody serves":
                self._nobody_serves()
            case "anything safe":
                time.sleep(1.5 * self.register_deadline_s)

    def end(self) -> None:
        """Bring back the arbiter, and see that it decides; then mend what is cut."""
        if self.partition.arbiter == "dead":
            self.watched.etcd.restart()
        elif self.partition.arbiter == "stopped":
            os.kill(self.watched.etcd.pid, signal.SIGCONT)
        if self.partition.meanwhile == "nobody serves" and self.partition.arbiter != "lives":
            self._await_serving(*self.pids)
        self.hosts.laboratory.mend_all()

    def await_protection(self) -> None:
        """Wait until the machine is protected again, and see that exactly one of the two went on: the promised one."""
        if self.partition.meanwhile == "protected":
            assert self.hosts.settled().pid == self.pids["active"]
            assert self.hosts.pid(self.names["standby"]) == self.pids["standby"]
            return
        ended: list[Member] = await_that(
            lambda: [member for member, pid in self.pids.items() if not lives(pid)],
            lambda: f"both members stay\n{self.hosts.log_tail()}",
        )
        assert len(ended) == 1, f"{ended} have ended\n{self.hosts.log_tail()}"
        after = self.hosts.settled(unlike=frozenset({self.pids[ended[0]]}))
        stayed: Member = "standby" if ended == ["active"] else "active"
        assert after.pid == self.pids[stayed], f"{after} is neither of {self.pids}"
        if self.partition.meanwhile in ("active serves", "standby serves"):
            assert self.partition.meanwhile == f"{stayed} serves"
        if self.partition.kills is None and ended == ["active"]:
            assert self._events("active")[-1]["event"] == "fenced", self._events("active")[-5:]

    def _stays_protected(self) -> None:
        # Longer than the register's deadline: nobody needs it as long as the two hear each other.
        reached = self.before.acknowledged + 1.5 * self.hosts.vm.timing.register_deadline_ns // self.before.interval_ns

        def goes_on() -> bool:
            status = self.hosts.status(self.before.host)
            assert status is not None
            assert status.role == "active", f"{status}\n{self.hosts.log_tail()}"
            return status.acknowledged > reached

        await_that(goes_on, self.hosts.log_tail)

    def _nobody_serves(self) -> None:
        self._await_stopped()
        if self.partition.kills == "active":
            # As long as a member that is alone waits before it stops.
            time.sleep(self.register_deadline_s)
        heard = self.watched.witness.voice.frames()
        time.sleep(SILENCE_S)
        assert self.watched.witness.voice.frames() == heard, "the guest is heard"
        assert not any(self._serves(member) for member in self.pids)

    def _await_serving(self, *members: Member) -> None:
        """Wait until one of these is the one that lets its guest run and speak, and the guest answers."""
        await_that(
            lambda: any(self._serves(member) for member in members),
            lambda: f"none of {members} goes on\n{self.hosts.log_tail()}",
        )
        self.hosts.ask("status")

    def _await_stopped(self) -> None:
        def is_stopped() -> bool:
            status = self.hosts.status(self.before.host)
            # The event follows when QEMU has said that it stands.
            told = any(event["event"] == "guest-stopped" for event in self._events("active"))
            return status is not None and status.role == "stopped" and told

        if lives(self.pids["active"]):
            await_that(is_stopped, lambda: f"the guest was not stopped\n{self.hosts.log_tail()}")

    def _serves(self, member: Member) -> bool:
        """Tell whether a member has come to a decision since the beginning, and it was to run the guest."""
        decided = [event for event in self._events(member) if event["event"] in ("active", "state", "fenced", "left")]
        if not decided or not lives(self.pids[member]):
            return False
        return decided[-1]["event"] == "active" or decided[-1].get("state") in SERVING

    def _events(self, member: Member) -> list[dict[str, Any]]:
        return [
            event
            for event in self.hosts.events(self.names[member])
            if event["pid"] == self.pids[member] and event["monotonic_ns"] > self.begun_ns
        ]


BY_NAME = {one.name: one for one in PARTITIONS}
ALWAYS = ("link", "active_alone", "arbiter_dead_then_active")


@pytest.mark.parametrize("partition", some_of(PARTITIONS, *map(BY_NAME.__getitem__, ALWAYS)), ids=lambda one: one.name)
def test_one_member_serves_at_most_and_nothing_is_lost(watched: Watched, partition: Partition) -> None:
    course = Course(watched, partition)
    try:
        course.begin()
        course.hold()
        course.end()
    finally:
        watched.hosts.laboratory.mend_all()
    course.await_protection()
    watched.assert_unharmed()
