"""A merged run as one document: its hosts, what is not whole about it, and each cell's figures over hosts."""

from stealtime.merging.figures import HostsOfCell, figures_of
from stealtime.merging.pooling import CellPools, pools_of_rows, read_pools
from stealtime.merging.tables import rows_of_merged, tables_of
from stealtime.merging.trial_row import TrialRow
from stealtime.store.elsewhere import samples_at_hand
from stealtime.store.merged import MergedPart
from stealtime.store.run import Run
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Facts, Model


class MergedDocument(Model):
    """What ``stealtime show --json`` prints of a merged run as ``merged``."""

    schema_version: int = 1
    run_id: str
    campaign: str
    parts: list[MergedPart]
    hosts: dict[str, Facts]
    remarks: list[str]
    cells: list[HostsOfCell]

    @property
    def is_over_hosts(self) -> bool:
        """Whether a cell was measured on more than one host."""
        return any(len(cell.hosts) > 1 for cell in self.cells)


def shows_hosts(run: Run) -> bool:
    """Tell whether a merged run is shown as hosts, of their counts alone: else as any run, of its samples.

    Raises:
        StealtimeError: It is no merged run, or its tables are damaged.
    """
    return read_merged(run).is_over_hosts or not samples_at_hand(run)


def read_merged(run: Run) -> MergedDocument:
    """Compute the figures of a merged run of its counts alone.

    Raises:
        StealtimeError: It is no merged run, or its tables are damaged.
    """
    merged = run.manifest.merged
    if merged is None:
        raise StealtimeError(f"{run.run_id} is no merged run", hint="make one with `stealtime merge`")
    rows, pools = pools_of_run(run)
    return MergedDocument(
        run_id=run.run_id,
        campaign=run.manifest.campaign_name,
        parts=merged.parts,
        hosts=run.manifest.hosts,
        remarks=merged.remarks,
        cells=figures_of(rows, pools),
    )


def pools_of_run(run: Run) -> tuple[list[TrialRow], dict[str, CellPools]]:
    """Give the trials of a run and what its hosts counted: as they were merged, or of its counts.

    Raises:
        StealtimeError: The tables of a merged run are damaged.
    """
    if run.manifest.merged is not None:
        rows = rows_of_merged(run)
        stored = read_pools(run.folder, rows)
        if stored is not None:
            return rows, stored
    tables = tables_of(run)
    return tables.rows, pools_of_rows(tables.rows, tables.counts)
