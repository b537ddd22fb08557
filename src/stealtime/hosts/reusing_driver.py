"""A driver that keeps what it set up for a cell, for the next one that wants the same."""

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

from stealtime.campaigns.blocking_driver import BlockingDriver
from stealtime.campaigns.planned import PlannedBoot
from stealtime.hosts.guest import Guest, ProtectionLostError
from stealtime.hosts.host import NotProtectedError
from stealtime.hosts.setting_up import refuse_hosts, set_up_hosts
from stealtime.hosts.testbed import Testbed
from stealtime.lab.scenarios.placement import Placement
from stealtime.vocabulary.errors import StealtimeError

Kept = TypeVar("Kept")
Wanted = TypeVar("Wanted")
"""The parameters of a cell that what is kept depends on."""


class ReusingDriver(BlockingDriver, Generic[Kept, Wanted]):
    """Keeps a guest or a server on hosts.

    Args:
        boot: Whose cells are carried out.
        placement: Of the scenario.
        folder: For logs, until they are stored.
    """

    retried_errors = (NotProtectedError,)

    def __init__(self, boot: PlannedBoot, placement: Placement, folder: Path) -> None:
        super().__init__(boot, placement, folder)
        self.kept: Kept | None = None
        self._wanted: Wanted | None = None
        self._serial = 0

    @abstractmethod
    def make(self, serial: int, wanted: Wanted) -> Kept:
        """Describe another one, with a number that none had before; it is not started."""

    @abstractmethod
    def begin(self, kept: Kept) -> None: ...

    @abstractmethod
    def stop_kept(self, kept: Kept) -> None: ...

    def kept_for(self, wanted: Wanted) -> Kept:
        """Give one as a cell wants it, begun anew if the last cell wanted another one."""
        if self.kept is not None and wanted != self._wanted:
            self.give_up()
        if self.kept is None:
            self._serial += 1
            self.kept, self._wanted = self.make(self._serial, wanted), wanted
            self.begin(self.kept)
        return self.kept

    def give_up(self) -> None:
        kept, self.kept = self.kept, None
        if kept is not None:
            self.stop_kept(kept)


class GuestDriver(ReusingDriver[Guest, Wanted]):
    """Keeps a guest on two hosts, begun anew where its host has died. Its ``refuse`` and ``set_up`` are those that a
    driver's module has; see ``campaigns.probe.Driver``.

    Args:
        boot: Whose cells are carried out.
        placement: Of the scenario.
        folder: For logs, until they are stored.
        testbed: The hosts.
    """

    what: ClassVar[str]
    """The guest is, as the beginning of a sentence that it is not to be had."""

    def __init__(self, boot: PlannedBoot, placement: Placement, folder: Path, testbed: Testbed) -> None:
        super().__init__(boot, placement, folder)
        self.testbed = testbed

    @classmethod
    def refuse(cls, boot: PlannedBoot, placement: Placement) -> None:
        """See that the two hosts can be set up, without doing so."""
        refuse_hosts(boot, placement, cls.what)

    @classmethod
    @asynccontextmanager
    async def set_up(cls, boot: PlannedBoot, placement: Placement, folder: Path) -> AsyncIterator[Self]:
        """Set up the two hosts, or borrow those of the scenario."""
        async with set_up_hosts(boot, placement, folder, cls.what) as testbed:
            yield cls(boot, placement, folder, testbed)

    def begin(self, kept: Guest) -> None:
        kept.start()
        kept.await_ready()

    def stop_kept(self, kept: Guest) -> None:
        self.testbed.clear()

    def log_tail(self) -> str:
        return self.testbed.log_tail()

    def before_retry(self, error: StealtimeError) -> None:
        """Take the same guest once more, which gets another standby, unless its host has died."""
        if not isinstance(error, ProtectionLostError):
            self.give_up()
