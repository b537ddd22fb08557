"""How figures are printed: how many values, minimum, median, maximum, and the target of the median."""

import argparse
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from stealtime.lab.platforms.qemu_program import find_qemu, qemu_version


@dataclass(frozen=True)
class Figure:
    """Values of one quantity, measured over and over."""

    name: str
    unit: str
    values: Sequence[float]
    at_most: float | None = None
    """What the median should not exceed."""
    at_least: float | None = None
    """What the median should reach."""

    @property
    def median(self) -> float:
        """The middle one; of an even number the mean of the two."""
        return float(median(self.values))

    def verdict(self) -> str:
        """Say whether the median keeps to the target; empty without one."""
        said = []
        if self.at_most is not None:
            said.append(f"{'kept' if self.median <= self.at_most else 'MISSED'}: <= {self.at_most:g}")
        if self.at_least is not None:
            said.append(f"{'kept' if self.median >= self.at_least else 'MISSED'}: >= {self.at_least:g}")
        return ", ".join(said)

    def document(self) -> dict[str, Any]:
        """Give what ``--json`` prints."""
        return {
            "name": self.name,
            "unit": self.unit,
            "n": len(self.values),
            "min": min(self.values),
            "median": self.median,
            "max": max(self.values),
            "at_most": self.at_most,
            "at_least": self.at_least,
            "values": list(self.values),
        }


def show(title: str, figures: Sequence[Figure], notes: Sequence[str] = (), *, as_json: bool) -> None:
    """Print a document, or a table for people; figures without values are left out."""
    there = [figure for figure in figures if figure.values]
    if as_json:
        figures_document = [figure.document() for figure in there]
        print(
            json.dumps(
                {"benchmark": title, "machine": machine(), "figures": figures_document, "notes": notes}, indent=1
            )
        )
        return
    print(f"{title} ({machine()})")
    widest = max(len(figure.name) for figure in there)
    print(f"{'':{widest}} {'n':>5} {'min':>11} {'median':>11} {'max':>11}")
    for figure in there:
        numbers = (min(figure.values), figure.median, max(figure.values))
        row = "".join(f" {number:11.3f}" for number in numbers)
        line = f"{figure.name:{widest}} {len(figure.values):5d}{row} {figure.unit:9} {figure.verdict()}"
        print(line.rstrip())
    for note in notes:
        print(note if note.startswith(" ") else f"- {note}")


def machine() -> str:
    """Name what this was measured on, as far as it decides the figures."""
    models = [line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model name")]
    model, load = models[0] if models else platform.machine(), os.getloadavg()[0]
    return (
        f"{os.cpu_count()} x {model}, Linux {platform.release()}, load {load:.1f}; "
        f"guests: QEMU {qemu_version(find_qemu())}, TCG"
    )


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Give a parser with the options that all these benchmarks have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="as much as the target asks for; for a quiet machine")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    return parser


def _cpu_lines() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
