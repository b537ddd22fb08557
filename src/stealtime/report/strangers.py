"""How much of its CPUs a cell did not have because of strangers, over its trials, in figures and in words."""

from collections.abc import Sequence
from statistics import median

from stealtime.campaigns.strangers import LIMITS_FROM, NOT_ALONE_FROM, names_of, shares_of, taken_share
from stealtime.store.strangers import StrangersRecord
from stealtime.vocabulary.cpu_lists import format_cpus
from stealtime.vocabulary.readings import Model

_NAMED = 4


class StrangersFigures(Model):
    """What programs that are not of the run took of a cell's CPUs, and the host's own host."""

    trials: int
    """That were watched."""
    limited: int
    """Of these, that had enough of it to be limited by it, those beside others with them."""
    not_alone: int
    """Of these, that were not alone."""
    cpus: list[int]
    """Of the host."""
    watched_s: float
    """Time on the CPUs, of all trials together."""
    taken_s: float
    """Of that: in each trial the largest of what strangers had, what the machine waited, and what was stolen."""
    taken_percent_median: float
    """The same as a share of a trial."""
    taken_percent_max: float
    strangers_percent_median: float | None
    waited_percent_median: float | None
    """Of what the machine's threads ran and waited; None where others of the run share its CPUs."""
    steal_percent_median: float | None
    who: list[str]
    """Those that used most CPU time first, in trials that were limited or not alone."""

    @property
    def words(self) -> str | None:
        """Say it in a sentence; None where the cell had its CPUs for itself."""
        if not self.limited:
            return None
        times = f" in {self.limited} of {self.trials} trials" if self.trials > 1 else ""
        state = "not alone" if self.not_alone else "not quite alone"
        where = f"CPU{'s' if len(self.cpus) > 1 else ''} {format_cpus(self.cpus)}"
        spread = (
            f"{self.taken_percent_median:.0f} %"
            if self.trials == 1
            else (f"{self.taken_percent_median:.0f} % (median; most {self.taken_percent_max:.0f} %)")
        )
        named = ", ".join(self.who[:_NAMED]) or "whose program is not known"
        return f"{state}{times}: others had {spread} of the time on {where}: {named}"


def strangers_figures(records: Sequence[StrangersRecord]) -> StrangersFigures | None:
    """Give the figures of some trials; None where nothing is known of any."""
    known = [(record, share) for record in records if (share := taken_share(record)) is not None]
    if not known:
        return None
    taken = [share for _, share in known]
    limited = [record for record, share in known if share >= LIMITS_FROM]
    watched_s = [record.elapsed_ns * len(record.cpus) / 1e9 for record, _ in known]
    return StrangersFigures(
        trials=len(known),
        limited=len(limited),
        not_alone=sum(share >= NOT_ALONE_FROM for share in taken),
        cpus=sorted({cpu for record, _ in known for cpu in record.cpus}),
        watched_s=sum(watched_s),
        taken_s=sum(share * whole_s for share, whole_s in zip(taken, watched_s, strict=True)),
        taken_percent_median=100 * median(taken),
        taken_percent_max=100 * max(taken),
        strangers_percent_median=_median_percent(records, "strangers"),
        waited_percent_median=_median_percent(records, "waited"),
        steal_percent_median=_median_percent(records, "steal"),
        who=names_of(limited),
    )


def _median_percent(records: Sequence[StrangersRecord], name: str) -> float | None:
    values = [shares[name] for record in records if name in (shares := shares_of(record))]
    return 100 * median(values) if values else None
