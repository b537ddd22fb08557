"""Several appliances on the same host, each a server in a guest of its own that knows nothing of the others.

All have the same standby: what a host bears of them, and what backing them costs another one.
"""

from collections.abc import Sequence
from typing import Any

from stealtime.hosts.testbed import Testbed
from stealtime.studies.telephony.appliance.configuration import ServerConfiguration
from stealtime.studies.telephony.appliance.image import USUAL_SIZE, Size
from stealtime.studies.telephony.parameters import Mode
from stealtime.studies.telephony.place.answering import await_answer
from stealtime.studies.telephony.place.guest import (
    UP_WITHIN_S,
    USUAL_INTERVALS,
    CheckpointIntervals,
    GuestPlace,
    machine_of,
)


class AppliancesPlace(GuestPlace):
    """Some appliances, each with both roles.

    Args:
        testbed: The hosts.
        name: What the machines' names begin with, new for each place.
        mode: How each is protected.
        appliances: How many.
        intervals: From one checkpoint to the next.
        size: How large each guest is.
        machine: What else is different from the usual machine, as in ``VM.toml``.

    Raises:
        UsageError: The hosts have no addresses for so many.
    """

    def __init__(
        self,
        testbed: Testbed,
        name: str,
        mode: Mode,
        *,
        appliances: int,
        intervals: CheckpointIntervals = USUAL_INTERVALS,
        size: Size = USUAL_SIZE,
        **machine: Any,
    ) -> None:
        super().__init__(testbed, name, mode, intervals=intervals, size=size, **machine)
        self._addresses = [testbed.address(number) for number in range(appliances)]
        for number, address in enumerate(self._addresses[1:], 1):
            told = ServerConfiguration(role="both", address=address, cpus=size.cpus)
            described = {**machine_of(told, mode, intervals, size), **machine}
            self.guests.append(testbed.guest(f"{name}-{number}-both", number=number, **described))

    @property
    def addresses(self) -> Sequence[str]:
        """Give that of each appliance."""
        return self._addresses

    def await_ready(self) -> None:
        """Wait until all guests are protected as they shall be, and each server answers."""
        self.await_protected()
        for address in self._addresses:
            await_answer(self.client, address, UP_WITHIN_S, self.log_tail, self._refuse_end)
        self.await_protected()
