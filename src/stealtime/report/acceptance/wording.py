"""What is said of a cell that was held against a bar."""

from stealtime.report import notation
from stealtime.report.acceptance.document import HeldCell


def sentence(one: HeldCell) -> str:
    """Say how it went, with both values and both durations."""
    bar = notation.trimmed_duration(one.at_most_ns)
    if one.verdict == "not judged":
        return f"not judged: {one.because}"
    longest, watched = notation.duration(one.longest_ns), time_words(one.watched_s)
    if one.verdict == "failed":
        return f"the longest of {watched} is {longest}, by {notation.duration(one.over_ns)} over {bar}"
    if one.verdict == "watched too short":
        wanted = time_words(one.to_be_watched_s)
        return f"the longest of {watched} is {longest}; that it stays under {bar} must be watched for {wanted}"
    return f"the longest of {watched} is {longest}, not over {bar}"


def time_words(seconds: float) -> str:
    """Write how long something was watched: ``12 h``, ``9.4 min``, ``3.1 s``."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{float(f'{seconds / size:.3g}'):g} {unit}"
    return f"{float(f'{seconds:.3g}'):g} s"
