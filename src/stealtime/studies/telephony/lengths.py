"""What the length of trials follows from, beside their durations: the plan of a run and the trials stand on it."""

STREAMS_OF_A_CALL = 2
"""One way each: from the caller to the phone, and from the phone to the caller."""
BEGUN_PER_S = 50
"""Calls and registrations a second: far below what the smallest server here carries, so that none waits."""
HELD_TRIES = 3
"""A rate that was found must be borne once more, for so many times as long as a try."""
