"""What times of trials follow from, beside their durations: the plan of a run and the trials stand on it."""

STREAMS_OF_A_CALL = 2
"""One way each: from the caller to the phone, and from the phone to the caller."""
BEGUN_PER_S = 50
"""Calls and registrations a second: far below what the smallest server here carries, so that none waits."""
HELD_TRIES = 3
"""A rate that was found must be borne once more, for so many times as long as a try."""
ANSWERED_BY_NS = 500_000_000
"""RFC 3261, T1: after so long a client sends again over UDP."""
GENERATORS_MAX = 8
"""SIPps that offer a load together: callers have a port each, from theirs up to that of phones."""
