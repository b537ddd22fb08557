"""A guest in namespaces that counts, and what its members say and note: for tests and benchmarks of protection."""

import json
import os
import signal
from typing import Any

from stealtime.hosts.counting import COUNTER, ask, counter_of
from stealtime.hosts.namespace_testbed import STANDBY, NamespaceGuest, NamespaceTestbed
from stealtime.hosts.waiting import PATIENCE_S
from stealtime.protect.control import ControlClient, ControlError
from stealtime.protect.status import RUNS_NOW, MemberStatus

PATIENT_TIMING = {"active_deadline": "1s", "standby_timeout": "1600ms", "register_deadline": "4s"}
"""An overloaded host must not end the protection between our look at it and a fault: that would be a second fault, and
rightly the machine's end. A death is seen at once all the same, by its closed connection."""


class CountingGuest(NamespaceGuest):
    """A guest that counts, first on host ``a``; its arguments are those of every guest."""

    def __init__(
        self, testbed: NamespaceTestbed, name: str = "counter", *, number: int = 0, known_as: str = "a", **machine: Any
    ) -> None:
        counter = {"program": "counter", "program_arguments": list(COUNTER)}
        super().__init__(testbed, name, number=number, known_as=known_as, **{**counter, **machine})
        self.address = counter_of(self)

    def ask(self, question: str, within_s: float = PATIENCE_S) -> dict[str, Any]:
        return ask(self, question, within_s)

    def control(self, name: str) -> ControlClient:
        """Talk with its member on a host."""
        return ControlClient(self.member(name).control_socket)

    def status(self, name: str) -> MemberStatus | None:
        """Give what its member on a host says, or None if there is nobody."""
        try:
            return self.control(name).status()
        except ControlError:
            return None

    def running(self, name: str) -> MemberStatus | None:
        """Give what its member on a host says, if it runs there, protected or not."""
        status = self.status(name)
        return status if status is not None and status.role in RUNS_NOW else None

    def events(self, name: str) -> list[dict[str, Any]]:
        """Give what its members on a host wrote about themselves."""
        return [json.loads(line) for line in self.member(name).events.read_text().splitlines()]

    def stop(self) -> None:
        """End it on all hosts at once, the standby first, so that it does not take over."""
        for name in (STANDBY, self.home):
            status = self.status(name)
            if status is not None and status.pid is not None:
                os.kill(status.pid, signal.SIGKILL)
        for name in (STANDBY, self.home):
            folder = self.member(name)
            self.waiting.until(lambda folder=folder: not folder.lives(), lambda: f"{self.name} does not end")  # type: ignore[misc]
