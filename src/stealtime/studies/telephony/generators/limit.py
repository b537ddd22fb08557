"""What is stored of who kept a load from being borne, and of what it was told by."""

from typing import Literal

from stealtime.vocabulary.readings import Model

OFFERED_SHARE_MIN = 0.9
"""Of the wanted rate. Less is a generator that did not keep up, on a host that it shares with the server."""

LimitedBy = Literal["generator", "network", "server", "none"]


class Evidence(Model):
    """What was seen of the SIPps that offered a load, and of what is around them."""

    generators: int
    """How many SIPps offered it."""
    cpu_percent: float | None
    """Of one CPU, from its start to its end, of that SIPp which used most; None: the kernel does not tell."""
    waiting_percent: float | None
    """Of its time, for which it could have run and had no CPU; of that SIPp which waited most."""
    late_p99_ns: int
    """99 % of all requests left within so long after their time of the plan."""
    late_max_ns: int
    late_timers: int
    """How often a SIPp's watchdog was late by 100 ms or more."""
    datagrams_dropped: int
    """At the phones' sockets, for want of room."""
    segments_sent_again: int
    """Of the phones' TCP."""
    frames_dropped: int | None
    """By the links between phones and server; None: nobody can count them."""
    server_cpu_percent: float
    """Of all CPUs that the server has, from the start of the generators to their end."""
    failed: int
    """Exchanges that were not answered, refused, or answered too late for a client that sends again (RFC 3261, T1)."""
    failed_while_late: int
    """Of them, those that were sent late, or were under way while a generator stood still."""


class Limit(Model):
    """What kept a load from being offered and borne."""

    by: LimitedBy | None
    """``none``: nothing failed, and it was offered as it was asked for. None: not judged."""
    sentence: str
    """What was seen, and the verdict, or why there is none."""
    evidence: Evidence
