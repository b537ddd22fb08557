"""What a study is for campaigns: its probes, its builtin campaigns, and which of its trials may be used."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.resources.abc import Traversable

from pydantic import BaseModel

from stealtime.campaigns.probe import Probe
from stealtime.store.model import TrialRecord


class Study(ABC):
    """One question. What is computed and shown of its trials is in ``report.study.ReportedStudy``, which all extend."""

    name: str
    """What distinguishes its results from those of other studies."""
    probes: tuple[Probe, ...]
    """In the order in which tables and figures show them; no two studies have one of the same name."""
    folder: Traversable
    """Its package."""

    @property
    def campaigns(self) -> Traversable:
        """The folder of its builtin campaigns, a TOML file each."""
        return self.folder / "campaigns"

    @property
    @abstractmethod
    def figures(self) -> type[BaseModel]:
        """What its cells hold; the key ``study`` of it is the name of the study."""

    def unusable(self, records: Sequence[TrialRecord]) -> Sequence[Sequence[str]]:
        """Say of each trial of one of its cells why it may not be used, beyond what holds for every study.

        Args:
            records: Of those trials against which nothing speaks so far, in order, without their tables: what only
                tables show, ``summarize_cell`` finds.
        """
        return [()] * len(records)
