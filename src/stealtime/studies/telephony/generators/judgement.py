"""Whether the generator, the network or the server is the limit of a load. Pure.

A server is blamed last: only where its generators ran when what failed was under way, and nothing was lost on the way.
Where something failed, that is what is judged. Where nothing did, a generator may still not have offered the load that
was asked for: one that is late sends in bursts.
"""

from stealtime.report import notation
from stealtime.studies.telephony.generators.evidence import LATE_NS, Offering
from stealtime.studies.telephony.generators.limit import OFFERED_SHARE_MIN, Evidence, Limit, LimitedBy

EXPLAINED_SHARE_MIN = 0.5
"""Whoever explains half of what failed, or more, is the limit: with less, more would fail without it than by it."""
BUSY_PERCENT_MIN = 90.0
"""A SIPp that had so much of a CPU, or waited for one, in all of its time had hardly any to spare when it was busiest:
the server cannot be told from it then, even if it was never late by much."""


def judge(offering: Offering, seen: Evidence) -> Limit:
    """Tell what kept a load from being borne."""
    is_offered = _offered_share(offering) >= OFFERED_SHARE_MIN
    if is_offered and seen.failed == offering.retransmissions == 0:
        if seen.late_p99_ns < LATE_NS:
            return Limit(by="none", sentence=f"nothing failed; {_sender_words(seen)}", evidence=seen)
        why = "the generator is the limit, since it sent in bursts what was to be spread evenly"
        return Limit(by="generator", sentence=f"{why} (nothing failed; {_sender_words(seen)})", evidence=seen)
    by, why = _judged(offering, seen)
    told = "; ".join([_failed_words(offering, seen), _sender_words(seen), _way_words(seen), _server_words(seen)])
    if by is None:
        return Limit(by=None, sentence=f"{told}: who is the limit is not judged, because {why}", evidence=seen)
    return Limit(by=by, sentence=f"the {by} is the limit, since {why} ({told})", evidence=seen)


def _judged(offering: Offering, seen: Evidence) -> tuple[LimitedBy | None, str]:
    """Give who is the limit and why, or None and why that is not known."""
    if _offered_share(offering) < OFFERED_SHARE_MIN:
        return "generator", f"of {offering.rate_per_s:.0f} per second it offered only {offering.offered_per_s:.0f}"
    if not seen.failed and (seen.late_max_ns >= LATE_NS or seen.late_timers):
        return None, "SIPp does not say which requests it sent again, and was late itself for some time"
    # One that was sent again may have been answered just before SIPp's timer ran out.
    failed = seen.failed or offering.retransmissions
    own = seen.failed_while_late + seen.datagrams_dropped
    if own >= EXPLAINED_SHARE_MIN * failed:
        return "generator", (
            f"{seen.failed_while_late} of what failed was sent late, or under way while SIPp stood still, and its "
            f"sockets lost {seen.datagrams_dropped} datagrams"
        )
    # A segment that is lost holds up all that follow it, so these are held against what TCP sent again.
    hit = failed if offering.transport == "udp" else seen.segments_sent_again
    if hit and seen.frames_dropped is None:
        return None, "nobody counts what is lost between these phones and the server"
    if hit and (seen.frames_dropped or 0) >= EXPLAINED_SHARE_MIN * hit:
        return "network", f"the links lost {seen.frames_dropped} frames, and SIPp sent in time"
    if seen.cpu_percent is None or seen.waiting_percent is None:
        return None, "the kernel does not tell what SIPp had of its CPUs"
    if seen.cpu_percent + seen.waiting_percent >= BUSY_PERCENT_MIN:
        return None, "SIPp had no CPU to spare"
    return "server", "SIPp sent in time, and nothing was lost on the way that explains it"


def _offered_share(offering: Offering) -> float:
    return offering.offered_per_s / offering.rate_per_s


def _failed_words(offering: Offering, seen: Evidence) -> str:
    again = f", {offering.retransmissions} sent again" if offering.retransmissions else ""
    return f"{seen.failed} of {len(offering.exchanges)} failed{again}"


def _sender_words(seen: Evidence) -> str:
    told = (
        f"99 % of the requests left within {notation.duration(seen.late_p99_ns, 3)} of their time, all within "
        f"{notation.duration(seen.late_max_ns, 3)}"
    )
    if seen.late_timers:
        told += f", with {seen.late_timers} late timers"
    if seen.cpu_percent is not None and seen.waiting_percent is not None:
        who = "SIPp" if seen.generators == 1 else f"the busiest of {seen.generators} SIPps"
        told += f"; {who} used {seen.cpu_percent:.3g} % of a CPU and waited {seen.waiting_percent:.3g} % of the time"
    return told


def _way_words(seen: Evidence) -> str:
    frames = "an unknown number of" if seen.frames_dropped is None else str(seen.frames_dropped)
    return f"lost: {seen.datagrams_dropped} datagrams at the phones' sockets, {frames} frames on the links"


def _server_words(seen: Evidence) -> str:
    return f"the server used {seen.server_cpu_percent:.3g} % of its CPUs"
