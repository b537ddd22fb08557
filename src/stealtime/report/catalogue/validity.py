"""Which results may not be used, by what their study declares."""

from collections.abc import Sequence

from pydantic import ValidationError

from stealtime.report.catalogue.model import Catalogue, ProbeFigures
from stealtime.store.model import TrialRecord
from stealtime.store.results import read_as
from stealtime.vocabulary.errors import StealtimeError


def unusable(catalogue: Catalogue, records: Sequence[TrialRecord]) -> list[Sequence[str]]:
    """Say of each measured trial what speaks against its result.

    Raises:
        StealtimeError: A result is damaged.
    """
    return [_invalid(catalogue.probes[record.cell.probe], record) for record in records]


def _invalid(declared: ProbeFigures, record: TrialRecord) -> Sequence[str]:
    if declared.invalid is None:
        return ()
    assert record.result is not None  # noqa: S101 - the rule asks about trials that have one
    try:
        return declared.invalid(read_as(record.result, declared.model))
    except ValidationError as error:
        message = f"the result of {record.trial_id} is damaged: {error.errors()[0]['msg']}"
        raise StealtimeError(message, hint="measure it again with --resume") from error
