"""The table of counters is what the page shows, and names what there is."""

import importlib
from pathlib import Path
from typing import get_args

import pytest

from stealtime.capacity.counters.table import counterparts, markdown
from stealtime.capacity.rules import GuestFigure, HostFigure
from stealtime.lab.platforms.kvm_counters import COUNTERS

PAGE = Path(__file__).parents[2] / "docs" / "counters.md"


def test_the_page_shows_the_table() -> None:
    assert markdown() in PAGE.read_text(), "run `python -m stealtime.capacity.counters.table` and put it into the page"


@pytest.mark.parametrize("parser", sorted({one.parser for one in counterparts() if one.parser is not None}))
def test_every_parser_that_is_named_exists(parser: str) -> None:
    module, _, function = parser.rpartition(".")
    assert callable(getattr(importlib.import_module(module), function))


def test_every_figure_of_a_rule_is_in_the_table() -> None:
    named = " ".join(one.figure for one in counterparts() if one.figure is not None)
    missing = {figure for figure in (*get_args(GuestFigure), *get_args(HostFigure)) if figure not in named}
    assert missing == {"guest_pressure_percent", "cpu_steal_percent", "io_pressure_percent"}


def test_counters_of_kvm_are_called_as_kvm_calls_them() -> None:
    known = {counter.name for counter in COUNTERS}
    told = [one.figure or "" for one in counterparts()]
    named = {name for figure in told if "per_second" in figure for name in figure.split("per_second ")[1].split(", ")}
    assert named
    assert named <= known
