"""What ``stealtime run --dry-run`` prints."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stealtime.cli.output import data_console, print_document
from stealtime.vocabulary.cpu_lists import format_cpus
from stealtime.vocabulary.quantities import approximate_duration, format_duration

if TYPE_CHECKING:
    from rich.console import Console

    from stealtime.campaigns.planned import PlannedBoot
    from stealtime.campaigns.session import Prepared
    from stealtime.lab.scenarios.placement import PlacedNeighbour

_LONG_NS = 60 * 10**9
"""Of a cell, from where on the short form is worth a word."""


def print_plan(prepared: "Prepared") -> None:
    """Print the boots with their cells in order, what is skipped, and the estimate."""
    from rich.table import Table

    from stealtime.campaigns.throttling_warning import throttling_warning

    console = data_console()
    if prepared.plan.campaign.description:
        console.print(prepared.plan.campaign.description, markup=False)
        console.print()
    _print_scenarios(prepared, console)
    table = Table("", "platform", "scenario", "repetition", "cells", box=None, pad_edge=False, header_style="bold")
    for number, boot in enumerate(prepared.plan.boots, start=1):
        table.add_row(str(number), boot.platform, boot.scenario, str(boot.repetition), _cell_words(boot))
    console.print(table)
    console.print()
    throttled = throttling_warning(prepared.plan)
    told = [*prepared.plan.alias_words, *prepared.plan.skipped_words, *([throttled] if throttled is not None else [])]
    for words in [*told, *prepared.remarks]:
        console.print(words, markup=False, soft_wrap=True)
    expected = prepared.estimate
    count = len(prepared.plan.cells)
    there = f" ({prepared.already_there} already measured)" if prepared.already_there else ""
    console.print(
        f"{count} cells{there}, about {approximate_duration(expected.total_s)}: "
        f"measuring {approximate_duration(expected.measuring_s)}, booting {approximate_duration(expected.booting_s)}, "
        f"the rest {approximate_duration(expected.overhead_s)}",
        soft_wrap=True,
    )
    longest_ns = max((cell.duration_ns for cell in prepared.plan.cells), default=0)
    if longest_ns >= _LONG_NS and prepared.plan.campaign.short is not None:
        console.print(f"up to {approximate_duration(longest_ns / 1e9)} a cell; --short takes seconds", soft_wrap=True)
    if expected.guessed:
        console.print(
            f"boot times not yet measured here, defaults assumed for: {', '.join(expected.guessed)}", soft_wrap=True
        )


def _print_scenarios(prepared: "Prepared", console: "Console") -> None:
    from rich.table import Table

    table = Table("scenario", "machine", "share", "beside it", box=None, pad_edge=False, header_style="bold")
    for name, placement in prepared.plan.places.named.items():
        table.add_row(
            name,
            "; ".join(f"vCPU on {format_cpus(cpus)}" for cpus in placement.vcpu_cpus),
            placement.share.words if placement.share is not None else "all",
            neighbour_words(placement.neighbours),
        )
    console.print(table)
    for name, placement in prepared.plan.places.named.items():
        if placement.scaled is not None:
            console.print(f"{name}: {placement.scaled}", markup=False, soft_wrap=True)
    console.print()


def neighbour_words(neighbours: "Sequence[PlacedNeighbour]") -> str:
    """Say what runs beside a machine: ``3 machines, memory-load, CPU 0-3, weight 100``."""
    words = []
    for one, count in Counter(replace(each, name="") for each in neighbours).items():
        plural = {"machine": "machines", "process": "processes"}[one.kind] if count > 1 else one.kind
        size = f" of {one.vcpus} vCPUs" if one.vcpus > 1 else ""
        share = "" if one.share is None else f", {one.share.words}"
        phases = ""
        if one.on_ns and one.off_ns:
            phases = f", {format_duration(one.on_ns)} on, {format_duration(one.off_ns)} off"
        words.append(f"{count} {plural}{size}, {one.load}, CPU {format_cpus(one.cpus)}{share}{phases}")
    return "; ".join(words) or "nothing"


def print_plan_document(prepared: "Prepared") -> None:
    from stealtime.campaigns.trial_setup import placement_record

    expected = prepared.estimate
    document: dict[str, Any] = {
        "schema_version": 1,
        "campaign": prepared.plan.campaign.document(),
        "cells": [
            {
                "id": cell.trial_id,
                "platform": cell.cell.platform,
                "scenario": cell.cell.scenario,
                "probe": cell.cell.probe,
                "parameters": cell.cell.parameters,
                "traced": cell.cell.traced,
                "repetition": cell.repetition,
                "duration_s": cell.duration_ns / 1e9,
            }
            for cell in prepared.plan.cells
        ],
        "already_there": prepared.already_there,
        "aliases": dict(prepared.plan.aliases),
        "scenarios": [
            {"name": name, **placement_record(placement).model_dump(mode="json")}
            for name, placement in prepared.plan.places.named.items()
        ],
        "skipped_scenarios": [
            {"name": one.name, "reason": one.reason, "hint": one.hint} for one in prepared.plan.skipped_scenarios
        ],
        "skipped": [record.model_dump() for record in prepared.plan.skipped],
        "remarks": list(prepared.remarks),
        "estimate": {
            "total_s": expected.total_s,
            "measuring_s": expected.measuring_s,
            "booting_s": expected.booting_s,
            "overhead_s": expected.overhead_s,
            "guessed_boot_times": list(expected.guessed),
        },
    }
    print_document(document)


def _cell_words(boot: "PlannedBoot") -> str:
    """Give the cells as ``tick-68us 5s, switch-2 500ms``; those that are traced too as ``tick-68us 4s +traced``."""
    words: dict[str, str] = {}
    for cell in boot.cells:
        name = cell.cell.untraced.measurement
        if name in words:
            words[name] = f"{name} {format_duration(cell.duration_ns)} +traced"
        else:
            words[name] = f"{name} {format_duration(cell.duration_ns)}" + (" traced" if cell.cell.traced else "")
    return ", ".join(words.values())
