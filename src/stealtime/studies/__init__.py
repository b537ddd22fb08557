"""One folder a question, with its own probes, results, analysis and pages."""

BUILTIN = (
    "stealtime.studies.latency.study",
    "stealtime.studies.protection.study",
    "stealtime.studies.realtime.study",
    "stealtime.studies.stretch.study",
    "stealtime.studies.telephony.study",
)
"""The modules that register the studies, each with its ``STUDY``; in the order in which they are shown."""
