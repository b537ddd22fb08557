"""What a protected guest's checkpoints took while something was measured: what protection itself tells of it."""

from collections.abc import Mapping, Sequence

from stealtime.protect.epochs import summarize_epochs
from stealtime.vocabulary.readings import Model


class Checkpoints(Model):
    """What the epochs of protected guests took that began while it was looked, and before any fault."""

    guests: int = 1
    """Whose epochs these are, all together."""
    epochs: int
    elapsed_ns: int
    """For how long it was looked."""
    pause_p50_ns: int
    """How long the guest stood still for an epoch."""
    pause_p99_ns: int | None = None
    """None in older runs."""
    pause_max_ns: int
    pause_total_ns: int
    """That the guest's time fell behind."""
    hold_p50_ns: int
    """From the cut of an epoch to the release of its output."""
    shipped_bytes: int
    """Of all these epochs, as the link carried them."""
    pages: int
    """Of all these epochs: written since the epoch before."""

    @property
    def epochs_per_s(self) -> float:
        """Of each guest."""
        return 1e9 * self.epochs / self.elapsed_ns / self.guests

    @property
    def bytes_per_epoch(self) -> float:
        return self.shipped_bytes / self.epochs

    @property
    def pages_per_epoch(self) -> float:
        return self.pages / self.epochs


def within(rows: Sequence[Mapping[str, int]], elapsed_ns: int) -> list[Mapping[str, int]]:
    """Give those of a guest's epochs that began within a time from the first one on.

    So they are as many as in the time in which something was measured, though they were asked for later.
    """
    return [row for row in rows if row["begin_ns"] < rows[0]["begin_ns"] + elapsed_ns]


def checkpoints_of(rows_of_guests: Sequence[Sequence[Mapping[str, int]]], elapsed_ns: int) -> Checkpoints | None:
    """Give what epochs took; None where there were none.

    Args:
        rows_of_guests: Of each protected guest the rows of its epochs, by the names of their columns.
        elapsed_ns: In which time these epochs began.
    """
    rows = [row for own in rows_of_guests for row in own]
    if not rows:
        return None
    return Checkpoints(guests=len(rows_of_guests), elapsed_ns=elapsed_ns, **summarize_epochs(rows))
