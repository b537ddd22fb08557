"""What a place is: somewhere the agent can be put and asked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class Answer:
    """How the agent ended there."""

    exit_code: int
    output: str
    said: tuple[str, ...]
    """Its lines on standard error."""


class Place(Protocol):
    """A machine on which the agent is run once."""

    async def run(self, arguments: Sequence[str], on_progress: OnProgress) -> Answer:
        """Run it and leave nothing behind, also when this is cancelled.

        Raises:
            StealtimeError: It could not be run there.
        """
