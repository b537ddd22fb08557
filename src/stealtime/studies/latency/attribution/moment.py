"""The first sample over the threshold of ``run --on-threshold``: what took its time."""

from stealtime.report.moment import Moment, MomentShare
from stealtime.store.run import Trial
from stealtime.studies.latency.analysis.series import load_series
from stealtime.studies.latency.attribution.attribute import NotAttributed, attribute_sample

_UNTRACED = ("host_not_traced", "not_traced")
"""Findings that say why a kernel was not recorded."""


def moment_of(trial: Trial) -> Moment | None:
    """Explain the sample of a trial; see ``report.study.ReportedStudy.moment``.

    Raises:
        StealtimeError: A file of the trial is damaged.
    """
    outcome = trial.record.outcome
    if outcome is None or outcome.threshold is None or outcome.request.on_threshold is None:
        return None
    hit, units_per_ns = outcome.threshold, outcome.clock.units_per_s / 1e9
    duration_ns = hit.duration_units / units_per_ns
    floor_ns = load_series(trial).summary()["floor_ns"]
    moment = Moment(
        trial_id=trial.record.trial_id,
        sample=hit.index,
        duration_ns=duration_ns,
        threshold_ns=outcome.request.on_threshold.overhead_ns,
        samples_over=hit.samples_over,
        is_stopped=outcome.request.on_threshold.stop,
        excess_ns=max(0.0, duration_ns - floor_ns),
    )
    try:
        spike = attribute_sample(trial, hit.index, hit.duration_units)
    except NotAttributed as error:
        untraced = [finding for finding in outcome.findings if finding.code in _UNTRACED]
        tracing = outcome.tracing
        untraced += [] if tracing is None else [one for one in tracing.findings if one.code in _UNTRACED]
        why = [error.message, *dict.fromkeys(finding.text for finding in untraced)]
        hint = next((finding.hint for finding in untraced if finding.hint is not None), error.hint)
        return moment.model_copy(update={"not_explained": "; ".join(why), "hint": hint})
    moment = moment.model_copy(update={"at_s": spike.start_s, "excess_ns": spike.excess_ns})
    if not spike.judged:
        return moment.model_copy(update={"not_explained": "events were lost around it: what took it is not known"})
    shares = [
        MomentShare(
            cause=part.cause.label,
            kind=part.cause.kind,
            lost_ns=part.ns,
            percent=part.ns / spike.excess_ns * 100 if spike.excess_ns > 0 else 0.0,
        )
        for part in sorted(spike.parts, key=lambda part: -part.ns)
    ]
    return moment.model_copy(update={"shares": shares})
