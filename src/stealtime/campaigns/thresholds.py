"""Whether what is to be measured can be held against the thresholds of ``--max-overhead``."""

from collections.abc import Mapping, Sequence

from stealtime.campaigns.intention import Intention
from stealtime.campaigns.probe import Probe
from stealtime.campaigns.registry import probes
from stealtime.campaigns.threshold import Threshold
from stealtime.vocabulary.errors import UsageError


def refuse_unbounded(intention: Intention) -> Sequence[str]:
    """See that each probe has what the thresholds are held against, where there are any.

    Raises:
        UsageError: One has not.
    """
    campaign, known = intention.plan.campaign, probes()
    names = list(dict.fromkeys(one.probe for one in campaign.probes))
    for threshold in campaign.thresholds:
        if without := [name for name in names if not _has(known[name], threshold)]:
            raise UsageError(
                f"--max-overhead {threshold.text} has nothing to judge of {', '.join(without)}",
                hint=f"choose with --probe among those that it can judge: {_judged(known, threshold)}",
            )
    return ()


def _has(probe: Probe, threshold: Threshold) -> bool:
    if threshold.percentile is None:
        return probe.bounded is not None
    return probe.percentiles is not None and threshold.percentile in probe.percentiles.known


def _judged(known: Mapping[str, Probe], threshold: Threshold) -> str:
    """Name the probes by what can be judged of them."""
    by_words: dict[str, list[str]] = {}
    for name, probe in known.items():
        if threshold.percentile is None:
            words = probe.bounded
        else:
            kept = probe.percentiles
            words = None if kept is None else f"{', '.join(f'p{one}' for one in kept.known)} of {kept.words}"
        if words is not None:
            by_words.setdefault(words, []).append(name)
    return "; ".join(f"{', '.join(names)} ({words})" for words, names in by_words.items())
