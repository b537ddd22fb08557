"""Each Hyper-V counter that the source reads, and what tells the same under Linux, KVM and QEMU (``counters.toml``).

``python -m stealtime.capacity.counters.table`` prints it as it stands in ``docs/counters.md``; a test sees that the two
agree and that every parser exists.
"""

import sys
import tomllib
from importlib import resources
from typing import Literal

from pydantic import TypeAdapter

from stealtime.vocabulary.readings import Model


class Counterpart(Model):
    """One counter of Hyper-V, and its equal here."""

    hyperv_object: str
    hyperv_counter: str
    figure: str | None = None
    """What stealtime calls it; None where nothing tells it."""
    source: str
    """The exact file and field, or command and name."""
    unit: str
    """Of the source, as it is read."""
    kind: Literal["cumulative", "instant", "average"]
    parser: str | None = None
    """The function that reads it."""
    trap: str
    """What goes wrong when it is taken for what it looks like."""


def counterparts() -> list[Counterpart]:
    text = (resources.files("stealtime.capacity.counters") / "counters.toml").read_text("utf-8")
    return TypeAdapter(list[Counterpart]).validate_python(tomllib.loads(text)["counters"])


def markdown() -> str:
    rows = ["| Hyper-V | here | source | unit, kind | trap |", "| -- | -- | -- | -- | -- |"]
    for one in counterparts():
        here = "*not told*" if one.figure is None else f"`{one.figure}`"
        if one.parser is not None:
            here += f", by `{one.parser.removeprefix('stealtime.')}`"
        hyperv = f"{one.hyperv_object}: {one.hyperv_counter}"
        rows.append(f"| {hyperv} | {here} | {one.source} | {one.unit}, {one.kind} | {one.trap} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
