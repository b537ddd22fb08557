"""What times of trials follow from, beside their durations: the plan of a run and the trials stand on it."""

STREAMS_OF_A_CALL = 2
"""One way each: from the caller to the phone, and from the phone to the caller."""
FIRST_STAGE_CALL = 81
"""The number of the first call through two stages. From it on the fronts' hash of the phones' names, which are their
ports, deals them about evenly among two primaries and among three; of the ten from 0 on one of two has nine."""
BEGUN_PER_S = 50
"""Calls and registrations a second: far below what the smallest server here carries, so that none waits."""
REGISTERED_PER_S = 1_500
"""Users that are registered before a load, in a second: about what a translated guest takes over one connection."""
REGISTERED_MAX = 150_000
"""Of them, as Kamailio has room for in a guest (``appliance.configuration.SHARED_MEMORY_BYTES``): each was seen to take
1.2 KiB of it, and those who register in the load take some, too."""
HELD_TRIES = 3
"""A rate that was found must be borne once more, for so many times as long as a try."""
ANSWERED_BY_NS = 500_000_000
"""RFC 3261, T1: after so long a client sends again over UDP."""
APPLIANCES_MAX = 4
"""On one host: each guest has its memory twice, here and at its standby."""
GENERATORS_MAX = 8
"""SIPps that offer a load together: callers have a port each, from theirs up to that of phones."""
VOICE_WITHOUT_STANDBY_S = 8.0
"""Both ends of calls speak on for so long when a standby is lost and there is a host for the next one: by then the
server is protected again, as a rule (3 to 6 s were seen)."""
