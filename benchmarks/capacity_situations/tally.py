"""Verdicts held against how much longer work took inside. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy.stats import binomtest

from capacity_situations.replaying import read
from stealtime.capacity.judgement import judge
from stealtime.capacity.rules import RuleBook

DUE_FROM = 1.5
"""A guest whose work took so many times as long lacks a CPU, whatever any counter says ..."""
QUIET_TO = 1.25
"""... and one whose work took no more than this does not. Between the two either verdict is right."""

BASE_WAITED_FROM = 10.0
"""A guest that waited for so much of the CPU time that it wanted, in percent, when it should have been alone has no
base: something else took the CPU, and how much longer its work took since then says nothing about it."""

WAITS = ("over-committed host", "misplaced guests")
"""Verdicts that say that a guest lacks a CPU of the host."""


@dataclass
class Tally:
    """What came of verdicts on guests or hosts."""

    due: int = 0
    found: int = 0
    missed: int = 0
    """Of those that are due, said to be all right ..."""
    quiet: int = 0
    alarms: int = 0
    undecided: int = 0
    """... and of all, not judged: ten seconds are few for a guest that works now and then."""
    between: int = 0
    unlabelled: int = 0
    """Of none of these: the guest was not alone when it should have been."""
    wrong: list[str] = field(default_factory=list)

    def add(self, what: str, stretch: float, verdict: str) -> None:
        waits = verdict in WAITS
        undecided = not waits and verdict == "not judged"
        if stretch >= DUE_FROM:
            self.due += 1
            self.found += waits
            self.undecided += undecided
            if not waits and not undecided:
                self.missed += 1
                self.wrong.append(f"missed: {what}, stretch {stretch:.2f}: {verdict}")
        elif stretch <= QUIET_TO:
            self.quiet += 1
            self.alarms += waits
            self.undecided += undecided
            if waits:
                self.wrong.append(f"false: {what}, stretch {stretch:.2f}: {verdict}")
        else:
            self.between += 1


@dataclass
class Tallies:
    """Of guests, and of hosts by the guest that suffers most."""

    guests: Tally = field(default_factory=Tally)
    hosts: Tally = field(default_factory=Tally)


def tallied(lines: Iterable[Mapping[str, Any]], rules: RuleBook) -> Tallies:
    """Judge situations; a guest that did nothing has no stretch, and one under a quota is not its host's fault."""
    found = Tallies()
    for line in lines:
        uses = read(line)
        host, judged = judge(uses, rules)
        by_name = {one.subject: one for one in judged}
        stretches = []
        for one in line["guests"]:
            held = "quota" in line["situation"] and one["machine"] == 0
            if "stretch" not in one or held:
                continue
            # Earlier recordings do not tell.
            if one.get("alone_wait_share_percent", 0.0) >= BASE_WAITED_FROM:
                found.guests.unlabelled += 1
                continue
            stretches.append(one["stretch"])
            name = f"guest {one['machine']}"
            found.guests.add(f"{line['situation']}: {name}", one["stretch"], by_name[name].verdict)
        labelled = sum("stretch" in one for one in line["guests"])
        if labelled and not stretches:
            found.hosts.unlabelled += "quota" not in line["situation"]
        if stretches:
            found.hosts.add(line["situation"], max(stretches), host.verdict)
    return found


def interval(count: int, of: int) -> tuple[float, float]:
    """Give the exact interval of 95 % of a share (C. Clopper and E. Pearson, Biometrika 26, 1934); all, of nothing."""
    if of == 0:
        return 0.0, 1.0
    found = binomtest(count, of).proportion_ci(0.95, method="exact")
    return float(found.low), float(found.high)


def rate(count: int, of: int) -> str:
    if of == 0:
        return "none to look at"
    low, high = interval(count, of)
    return f"{count} of {of} ({100 * count / of:.1f} %, {100 * low:.1f} to {100 * high:.1f} %)"


def describe(name: str, tally: Tally) -> Sequence[str]:
    """Give lines for the terminal."""
    return [
        f"{name}: false alarms {rate(tally.alarms, tally.quiet)}; missed {rate(tally.missed, tally.due)}; not judged "
        f"{tally.undecided} of {tally.quiet + tally.due}; {tally.between} between {QUIET_TO:g} and {DUE_FROM:g} times"
        f"{f'; {tally.unlabelled} not alone when they should have been' if tally.unlabelled else ''}",
        *(f"  {one}" for one in tally.wrong),
    ]
