"""What a run is given when it ends, so that it may travel: causes beside its longest samples, and its index."""

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stealtime.store.run import Run


def prepare_to_travel(run: "Run") -> None:
    """Name the causes of traced trials and index the trials; what cannot be is made by whoever needs it."""
    from stealtime.merging.tables import keep_rows
    from stealtime.studies.latency.attribution.longest_causes import name_causes
    from stealtime.vocabulary.errors import StealtimeError

    with contextlib.suppress(StealtimeError, OSError):
        for trial in run.trials:
            # What is wrong with one trial keeps no cause from the others.
            with contextlib.suppress(StealtimeError, OSError):
                name_causes(trial)
        keep_rows(run)
