"""Whether the agents will carry out what a plan asks of them: what they refuse is known before a machine is booted."""

from collections.abc import Sequence

from stealtime.campaigns.intention import Intention
from stealtime.campaigns.parameters import Asked, Parameters
from stealtime.campaigns.registry import parameters_of, probes
from stealtime.store.durations import DURATIONS
from stealtime.vocabulary.errors import UsageError

_HIGHEST_PRIORITY = 99
"""Of SCHED_FIFO."""


def refuse_what_agents_refuse(intention: Intention) -> Sequence[str]:
    """Ask the probe of each cell whether its agent would carry the trial out.

    Raises:
        UsageError: It would not. Of several cells the last is told: campaigns list what grows in the order in which it
            does, so that it needs most.
    """
    refused: UsageError | None = None
    seen: set[tuple[Parameters, Asked]] = set()
    for boot in intention.on_machines:
        priority = intention.priority_of(boot)
        for planned in boot.cells:
            parameters = parameters_of(planned.cell)
            asked = Asked(duration_ns=planned.duration_ns, priority=priority, repetition=planned.repetition)
            if (parameters, asked) in seen:
                continue
            seen.add((parameters, asked))
            try:
                parameters.refuse(asked)
            except UsageError as error:
                refused = error
    if refused is not None:
        raise refused
    return ()


def refuse_disturbance_without_room(intention: Intention) -> Sequence[str]:
    """See that the thread that disturbs has a priority above the probes'.

    Raises:
        UsageError: There is none: the agent would refuse such trials (``crates/probe/src/request.rs``).
    """
    if intention.plan.campaign.injection is None:
        return ()
    for boot in intention.on_machines:
        if (priority := intention.priority_of(boot)) >= _HIGHEST_PRIORITY:
            raise UsageError(
                f"the injected disturbance needs a priority above that of the probes, and theirs is {priority} "
                f"({boot.scenario})",
                hint=f"measure with a priority of at most {_HIGHEST_PRIORITY - 1} (-p)",
            )
    return ()


def refuse_threshold_without_samples(intention: Intention) -> Sequence[str]:
    """See that each probe has samples to hold against the threshold, where there is one.

    Raises:
        UsageError: One has not.
    """
    campaign, known = intention.plan.campaign, probes()
    without = list(dict.fromkeys(one.probe for one in campaign.probes if known[one.probe].result is not DURATIONS))
    if campaign.on_threshold is None or not without:
        return ()
    fit = ", ".join(name for name, probe in known.items() if probe.result is DURATIONS and probe.driver is None)
    raise UsageError(
        f"--on-threshold is about single samples, which {', '.join(without)} has not", hint=f"--probe {fit}"
    )
