"""The answers of all studies that have cells in a run, in the order of the studies."""

from stealtime.report.studies import studies
from stealtime.report.summary import RunSummary


def with_answers(summary: RunSummary) -> RunSummary:
    """Give the figures of a run with what each study answers of its own."""
    answers = [study.answer(summary) for study in studies() if study.own(summary)]
    return summary.model_copy(update={"answers": answers})
