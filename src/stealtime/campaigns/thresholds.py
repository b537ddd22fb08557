"""Whether what is to be measured can be held against the threshold of ``--max-overhead``."""

from collections.abc import Sequence

from stealtime.campaigns.intention import Intention
from stealtime.campaigns.registry import probes
from stealtime.vocabulary.errors import UsageError


def refuse_unbounded(intention: Intention) -> Sequence[str]:
    """See that each probe has something to hold against a threshold, where there is one.

    Raises:
        UsageError: One has not.
    """
    campaign, known = intention.plan.campaign, probes()
    without = list(dict.fromkeys(one.probe for one in campaign.probes if known[one.probe].bounded is None))
    if intention.threshold_ns is None or not without:
        return ()
    by_words: dict[str, list[str]] = {}
    for name, probe in known.items():
        if probe.bounded is not None:
            by_words.setdefault(probe.bounded, []).append(name)
    judged = "; ".join(f"{', '.join(names)} ({words})" for words, names in by_words.items())
    raise UsageError(
        f"--max-overhead has nothing to judge of {', '.join(without)}",
        hint=f"choose with --probe among those that it can judge: {judged}",
    )
