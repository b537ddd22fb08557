"""The parameters of a cell, as its probe declares them: what a trial of them asks for, needs and takes."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from pydantic import ConfigDict, JsonValue, ValidationError

from stealtime.vocabulary.readings import Model
from stealtime.wire.message import ProbeRequest

if TYPE_CHECKING:
    from stealtime.lab.platforms.device_models import DeviceChoice
    from stealtime.lab.platforms.traits import PlatformTraits


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked of a probe beside its parameters."""

    duration_ns: int
    """How long to measure."""
    priority: int
    """Of SCHED_FIFO; 0 is ordinary scheduling."""
    repetition: int
    """From 1."""


class HasParameters(Protocol):
    """A cell: as it is stored, or its figures."""

    @property
    def parameters(self) -> Mapping[str, JsonValue]: ...


class Parameters(Model):
    """What tells apart the cells of one probe. A field with a default is stored only where it has another value."""

    # A run of a later version may tell more of a cell.
    model_config = ConfigDict(extra="ignore", frozen=True, validate_by_name=True, validate_by_alias=True)

    @classmethod
    def of(cls, cell: HasParameters) -> Self:
        """Read those of a cell; those of another probe, or damaged ones, raise ``pydantic.ValidationError``."""
        return cls.model_validate(cell.parameters)

    @property
    def stored(self) -> dict[str, JsonValue]:
        """As ``store.model.Cell`` holds them."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    @property
    def words(self) -> str:
        """For people."""
        return _listed(self.stored)

    @classmethod
    def words_of(cls, parameters: Mapping[str, JsonValue]) -> str:
        """Put those of a stored cell into words; damaged ones, or those of another version, as they stand."""
        try:
            return cls.model_validate(parameters).words
        except ValidationError:
            return _listed(parameters)

    def request(self, iterations: Mapping[int, int], repetition: int) -> ProbeRequest:
        """Make what the agent is asked for, of the iterations of each length of busy loop and the repetition from 1."""
        raise NotImplementedError(f"{type(self).__name__} are of a probe that its driver carries out")

    def refuse(self, asked: Asked) -> None:
        """Raise ``UsageError`` where the agent would refuse a trial (``Probe::validate`` and ``validate_priority`` in
        ``crates/probe``). Asked of every cell before a run begins: else it would be known after a boot only."""

    def suits(self, _traits: "PlatformTraits") -> bool:
        """Tell whether a driver has such a cell on a platform: a native server is not protected, for one. Others are
        left out of the plan."""
        return True

    @property
    def set_up(self) -> Hashable | None:
        """What a driver sets up for a cell and keeps for the next one that wants the same: such cells are planned one
        after another. None: nothing is kept, and cells stay in the order of the campaign."""
        return None

    @property
    def set_up_s(self) -> float:
        """How long that takes, in the first cell that wants it, where no run on this host tells."""
        return 0.0

    @property
    def devices(self) -> "tuple[DeviceChoice, ...]":
        """What devices the machine must have beside its own. A platform that has none of that model (its traits tell)
        has no such cell."""
        return ()

    @property
    def memory_bytes(self) -> int:
        """What a trial works on: so much memory its machine must have, beside that for samples."""
        return 0

    @property
    def expected_ns(self) -> int | None:
        """How long one CPU about takes for a trial where its duration is but a limit; None takes the duration."""
        return None

    def beyond_s(self, _duration_s: float) -> float | None:
        """Give what a trial of a duration takes beyond it, without ``set_up_s``, where no run on this host tells; None
        takes what is usual on the platform."""
        return None


def _listed(parameters: Mapping[str, JsonValue]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(parameters.items()))
