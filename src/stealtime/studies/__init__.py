"""One folder a question, with its own probes, results, analysis and pages."""

BUILTIN = (
    "stealtime.studies.latency.study",
    "stealtime.studies.devices.study",
    "stealtime.studies.protection.study",
    "stealtime.studies.realtime.study",
    "stealtime.studies.stretch.study",
    "stealtime.studies.telephony.study",
)
"""The modules that register the studies, each with its ``STUDY``; in the order in which they are shown."""
WITH_OPTIONS = ("stealtime.studies.latency.probes.options",)
"""The modules that declare options of ``run`` for one probe alone, each with its ``OPTIONS``; they load no more."""
