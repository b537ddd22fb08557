"""Whether the machine below takes back memory that nobody touches for a while, as ``stealtime doctor`` sees it."""

from stealtime.doctor.resting_memory import rest_pages


def is_taken_back() -> bool:
    """Tell whether a good part of the resting pages is gone."""
    return rest_pages().are_taken_back
