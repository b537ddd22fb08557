"""What is to be measured: a trial to come, and the machine that it is measured on."""

from dataclasses import dataclass

from stealtime.store.model import Cell


@dataclass(frozen=True)
class PlannedCell:
    """One trial to come."""

    cell: Cell
    repetition: int
    duration_ns: int
    max_samples: int | None

    @property
    def trial_id(self) -> str:
        """The name of its folder."""
        return self.cell.trial_id(self.repetition)


@dataclass(frozen=True)
class PlannedBoot:
    """A machine to boot beside its neighbours, and what is measured on it one after the other."""

    platform: str
    scenario: str
    repetition: int
    cells: tuple[PlannedCell, ...]
    host: str = "local"
    """Its name."""
