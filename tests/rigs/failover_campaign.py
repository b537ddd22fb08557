"""Everything that can be done to a protected machine, one after the other."""

import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from two_hosts import HOSTS, PATIENCE_S, TwoHosts, await_that, lives, other

from stealtime.hosts.laboratory import ARBITER
from stealtime.hosts.network import Direction, run
from stealtime.protect.control import ControlError
from stealtime.protect.status import MemberStatus

DEATHS = ("kill", "kill-guest")
FAULTS = ("kill-qemu", "kill-member", "power-off", "cut-link")

ACTIVE_POINTS = (
    "before-stop",
    "after-stop",
    "after-cut",
    "after-save",
    "after-copy",
    "after-continue",
    "before-encode",
    "during-ship",
    "after-ship",
    "on-acknowledge",
    "before-release",
    "after-release",
)
"""Passed in each epoch by the active member: it dies there, and the other one takes over."""
STANDBY_POINTS = ("during-stage", "after-stage", "before-acknowledge", "after-acknowledge", "after-apply")
"""Passed in each epoch by the standby: it dies there, and the active member finds another."""
SUCCESSION_POINTS = ("before-claim", "after-claim", "before-load", "after-resume")
"""Passed by the standby that takes over. Its death there would be the second one: it only stands still for a while."""
NAMING_POINTS = ("before-naming",)
"""Passed by an active member without standby, whose death is the machine's: it stands still there too."""

LATE = {f"{point}, {action}": (point, action) for point in STANDBY_POINTS for action in ("stop", "delay")}
"""The standby stands still there, or is late there by more than all deadlines, while the active member dies."""

MOVING_POINTS = ("before-claim", "after-claim", "before-load", "after-load")
"""Passed by the standby of a planned failover while the active member keeps the stopped guest: either may die there."""
MOVES = {
    f"planned, {whose} dies {point}": (whose, point)
    for whose in ("the standby", "the active")
    for point in MOVING_POINTS
}

PORT_FAULTS = {"port, TAP deleted": "link delete {tap}", "port, TAP down": "link set {tap} down"}
"""What makes the guest unreachable where it runs, though it runs: it moves."""

STANDBY_DIES, ACTIVE_DIES = "register away, the standby dies", "register away, the active dies"
REGISTER_FAULTS = (STANDBY_DIES, ACTIVE_DIES)
"""Nobody can decide while one of the two dies, and then somebody can again."""
REGISTER_AWAY_S = (0.5, 3.0)

POINTS = (
    *ACTIVE_POINTS,
    *STANDBY_POINTS,
    *SUCCESSION_POINTS,
    *NAMING_POINTS,
    *LATE,
    *MOVES,
    *PORT_FAULTS,
    *REGISTER_FAULTS,
)
MOVING = (*ACTIVE_POINTS, *SUCCESSION_POINTS, *LATE, *PORT_FAULTS, ACTIVE_DIES)
"""After these the guest is on the other host, whatever else happens."""
ALL_FAULTS = (*FAULTS, *PORT_FAULTS, *REGISTER_FAULTS, *MOVES)
"""Of these, one after the other, a long campaign is made, beside one pass of each point."""
LONGEST_REPROTECTION_S = 60.0
"""On an idle host it takes 1 to 2 s."""


class Campaign:
    """Breaks what is whole, again and again."""

    def __init__(self, hosts: TwoHosts, chance: random.Random) -> None:
        self.hosts = hosts
        self.chance = chance
        self.done: Counter[str] = Counter()
        self.moved = 0
        self.last_host = HOSTS[0]
        self.longest_reprotection_s = 0.0
        self.struck_at = 0.0

    def strike(self, what: str) -> None:
        """Do one thing to a protected machine, and wait until it is protected again and answers."""
        # A moment anywhere in some epochs.
        time.sleep(self.chance.uniform(0.0, 0.4))
        self.struck_at = time.monotonic()
        before, gone = self._strike(what)
        after = self.hosts.settled(unlike=frozenset({gone}))
        took_s = time.monotonic() - self.struck_at
        self.longest_reprotection_s = max(self.longest_reprotection_s, took_s)
        assert took_s < LONGEST_REPROTECTION_S, f"{what}: protected again only after {took_s:.1f} s"
        self.hosts.ask("status")
        self.done[what] += 1
        self.moved += after.host != before.host
        # With the default deadlines an overloaded host may be missed between two faults.
        self.moved += before.host != self.last_host
        self.last_host = after.host

    def _strike(self, what: str) -> tuple[MemberStatus, int]:
        """Do it; give who was active, and the pid of the member that it has ended."""
        before = self.hosts.settled()
        active, standby = before.host, other(before.host)
        standby_pid = self.hosts.pid(standby)
        if what in ACTIVE_POINTS:
            before = self.hosts.strike(self.chance.choice(DEATHS), what, passes=self.chance.randint(1, 4))
            self.hosts.await_end(_pid(before))
        elif what in STANDBY_POINTS:
            self.hosts.control(standby).fault(what, "kill", passes=self.chance.randint(1, 4))
            self.hosts.await_end(standby_pid)
            return before, standby_pid
        elif what in SUCCESSION_POINTS:
            self.hosts.control(standby).fault(what, "stop")
            before = self.hosts.strike("kill")
            self._hold_still(standby_pid)
        elif what in PORT_FAULTS:
            self._break_port(before, PORT_FAULTS[what])
        elif what in REGISTER_FAULTS:
            dies = _pid(before) if what == ACTIVE_DIES else standby_pid
            with self._register_away():
                self.hosts.kill(dies)
                time.sleep(self.chance.uniform(*REGISTER_AWAY_S))
            return before, dies
        elif what in MOVES:
            return before, self._break_move(before, standby_pid, *MOVES[what])
        elif what in LATE:
            before = self._strike_while_late(*LATE[what])
        elif what in NAMING_POINTS:
            self.hosts.control(active).fault(what, "stop")
            self.hosts.kill(standby_pid)
            self._hold_still(_pid(before))
            return before, standby_pid
        elif what == "kill-qemu":
            before = self.hosts.strike("kill-guest")
            self.hosts.await_end(_pid(before))
        elif what == "kill-member":
            before = self.hosts.strike("kill")
            self.hosts.await_end(_pid(before))
        elif what == "power-off":
            before = self.hosts.strike("kill")
            self.hosts.power_off(before.host)
            self.hosts.await_running(other(before.host))
            self.hosts.start_daemon(before.host)
        else:
            return before, self._cut_link(before, standby_pid)
        return before, _pid(before)

    def _strike_while_late(self, point: str, action: str) -> MemberStatus:
        """Kill the active member while its standby stands at a step; if that was given up before, try again."""
        while True:
            before = self.hosts.settled()
            standby = other(before.host)
            standby_pid = self.hosts.pid(standby)
            fault = partial(self.hosts.control(standby).fault, point, action)
            self.hosts.await_fault(standby, point, fault)
            is_struck = self.hosts.strikes(before.host, self.chance.choice(DEATHS))
            if action == "stop":
                self._hold_still(standby_pid)
            if is_struck:
                self.hosts.await_end(_pid(before))
                return before

    def _break_move(self, before: MemberStatus, standby_pid: int, whose: str, point: str) -> int:
        """Have one of the two die in a planned failover; give its pid."""
        active, active_pid = self.hosts.control(before.host), _pid(before)
        standby_dies = whose == "the standby"
        self.hosts.control(other(before.host)).fault(point, "kill" if standby_dies else "stop")
        with ThreadPoolExecutor(1) as asking:
            asked = asking.submit(active.failover)
            if standby_dies:
                self.hosts.await_end(standby_pid)
                refusal = asked.exception(PATIENCE_S)
                assert isinstance(refusal, ControlError), refusal
                assert "goes on here" in refusal.message, refusal
                return standby_pid
            self.hosts.stand_still(standby_pid)
            self.hosts.kill(active_pid)
            os.kill(standby_pid, signal.SIGCONT)
            assert isinstance(asked.exception(PATIENCE_S), ControlError)
        return active_pid

    def _break_port(self, before: MemberStatus, change: str) -> None:
        """Take the guest's TAP away, and wait until the member is gone from which nobody is reached."""
        prefix = self.hosts.laboratory.host(before.host).prefix
        (tap,) = set(re.findall(r"(?:tap-|stt)[^:@ ]+", run(*prefix, "ip", "-oneline", "link")))
        run(*prefix, "ip", *change.format(tap=tap).split())
        self.hosts.await_end(_pid(before))

    @contextmanager
    def _register_away(self) -> Iterator[None]:
        """No member reaches the register inside."""
        if self.hosts.etcd is not None:
            self.hosts.laboratory.cut(ARBITER, "register")
            try:
                yield
            finally:
                self.hosts.laboratory.mend(ARBITER, "register")
            return
        folder = self.hosts.testbed.register.folder
        assert folder is not None
        away = folder.rename(folder.with_name("register.away"))
        try:
            yield
        finally:
            away.rename(folder)

    def _hold_still(self, pid: int) -> None:
        self.hosts.stand_still(pid)
        time.sleep(self.chance.uniform(0.1, 1.0))
        os.kill(pid, signal.SIGCONT)

    def _cut_link(self, before: MemberStatus, standby_pid: int) -> int:
        """Cut it until one of the two asks for the machine alone; give the one whose life is over then."""
        directions: tuple[Direction, ...] = ("both", "from", "to")
        direction = self.chance.choice(directions)
        self.hosts.laboratory.cut(before.host, "replication", direction)
        try:
            await_that(
                lambda: any(status is not None and status.role == "solo" for status in map(self.hosts.status, HOSTS)),
                lambda: f"nobody goes on alone\n{self.hosts.log_tail()}",
            )
        finally:
            self.hosts.laboratory.mend(before.host, "replication")
        # Who asked first need not be who gets it.
        ended = await_that(
            lambda: [pid for pid in (_pid(before), standby_pid) if not lives(pid)],
            lambda: f"both members stay\n{self.hosts.log_tail()}",
        )
        return ended[0]


def _pid(member: MemberStatus) -> int:
    assert member.pid is not None
    return member.pid
