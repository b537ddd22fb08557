"""The text that Prometheus reads (exposition format 0.0.4), with its base units; pure.

prometheus_client builds an object for each of some ten thousand samples, which takes ten times as long and more memory
than the text (``benchmarks/capacity_exporter.py``); here families are written as they come. What is absent has no
series: it is never exported as 0.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from stealtime.vocabulary.readings import Absent

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Kind = Literal["counter", "gauge"]
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """All series of one metric."""

    name: str
    kind: Kind
    help: str
    samples: list[tuple[str, float]]
    """What :func:`labels` gave, and the value."""

    def add(self, written_labels: str, value: float | Absent | None, unit: float = 1.0) -> None:
        """Add a sample, where there is one.

        Args:
            written_labels: As :func:`labels` writes them.
            value: In any unit ...
            unit: ... and what one of it is in the metric's.
        """
        if value is not None and not isinstance(value, Absent):
            self.samples.append((written_labels, value * unit))


def counter(name: str, what: str) -> Family:
    """Give an empty counter; ``_total`` ends its name."""
    return Family(f"{name}_total", "counter", what, [])


def gauge(name: str, what: str) -> Family:
    return Family(name, "gauge", what, [])


def labels(**values: str) -> str:
    """Write labels; those that are empty are left out, as Prometheus takes them for missing."""
    written = ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items() if value)
    return f"{{{written}}}" if written else ""


def write(families: Iterable[Family]) -> bytes:
    """Write all families that have a sample."""
    return "".join(_lines(families)).encode()


def _lines(families: Iterable[Family]) -> Iterator[str]:
    for family in families:
        if family.samples:
            name = family.name
            yield f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n"
            yield "".join([f"{name}{written} {value:.10g}\n" for written, value in family.samples])


def _escaped(value: str) -> str:
    # A name may hold what is no character at all (a lone surrogate): it would spoil the whole answer.
    value = value.encode("utf-8", "replace").decode()
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


Source = Callable[[], Iterable[Family]]
"""Gives more families each time it is asked."""
