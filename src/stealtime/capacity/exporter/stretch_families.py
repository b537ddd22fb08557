"""The stretch of guests and the pressure on the host as metrics, and what is predicted of one more guest; pure.

The stretch is that of the last reading. For a longer time Prometheus makes it of the counters:
`1 + rate(stealtime_guest_wait_seconds_total[5m]) / rate(stealtime_guest_run_seconds_total[5m])`.
"""

from collections.abc import Iterator
from typing import Final

from stealtime.capacity.exporter.exposition import Family, gauge, labels
from stealtime.capacity.prediction.document import PredictionDocument, Scenario
from stealtime.capacity.stretching import pressure_of, stretch_of
from stealtime.capacity.use import Use

MOST_VCPUS: Final = 5
"""Of a guest whose virtual CPUs have a series each, as in :mod:`stealtime.capacity.exporter.families`."""


def stretch_families(use: Use) -> Iterator[Family]:
    """Give the stretch of each guest and virtual CPU in one interval, and the pressure on the host."""
    stretch = gauge("stealtime_guest_stretch_ratio", "How many times as long as on CPUs of its own its work takes.")
    each = gauge("stealtime_vcpu_stretch_ratio", f"The same of a virtual CPU; of guests with up to {MOST_VCPUS}.")
    for one in use.guests.values():
        name = one.guest.name
        stretch.add(labels(guest=name), stretch_of([one]))
        if len(one.vcpus) <= MOST_VCPUS:
            for number in one.vcpus:
                each.add(labels(guest=name, vcpu=str(number)), stretch_of([one], number))
    pressure = gauge("stealtime_host_wait_ratio", "Of the CPU time that guests want, the share for which they wait.")
    pressure.add("", pressure_of(use.guests.values()))
    yield from (stretch, each, pressure)


def prediction_families(prediction: PredictionDocument) -> Iterator[Family]:
    """Give what is predicted of each change, as a descheduler reads it: one value from 0 to 1 for the host."""
    pressure = gauge("stealtime_host_wait_predicted_ratio", "stealtime_host_wait_ratio after one change alone.")
    stretch = gauge("stealtime_guest_stretch_predicted_ratio", "The stretch of a guest beside one more guest.")
    low = gauge("stealtime_guest_stretch_predicted_low_ratio", "The lower end of its interval of 90 %.")
    high = gauge("stealtime_guest_stretch_predicted_high_ratio", "The upper end.")
    for scenario in prediction.scenarios:
        pressure.add(labels(**_change(scenario)), scenario.pressure)
        if scenario.added is None:
            continue  # each guest without each other would be a series for every pair
        for one in scenario.guests:
            if one.stretch is not None and one.low is not None and one.high is not None:
                own = labels(guest=one.guest, added=scenario.added)
                stretch.add(own, one.stretch)
                low.add(own, one.low)
                high.add(own, one.high)
    yield from (pressure, stretch, low, high)


def _change(scenario: Scenario) -> dict[str, str]:
    return {"added": scenario.added or "", "removed": scenario.removed or ""}
