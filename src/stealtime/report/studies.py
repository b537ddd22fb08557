"""The registered studies, as those who report on them know them."""

from stealtime.campaigns import registry
from stealtime.campaigns.study import Study
from stealtime.report.study import ReportedStudy


def studies() -> tuple[ReportedStudy, ...]:
    """Give all of them; see ``campaigns.registry``."""
    return tuple(map(_reported, registry.studies()))


def study_of(probe: str) -> ReportedStudy:
    """Give the one that a probe belongs to.

    Raises:
        StealtimeError: There is none, as in a run of another version.
    """
    return _reported(registry.study_of(probe))


def _reported(study: Study) -> ReportedStudy:
    assert isinstance(study, ReportedStudy)  # noqa: S101 - nothing else is registered
    return study
