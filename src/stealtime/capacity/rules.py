"""The rules of a verdict: data from a TOML file, checked as a whole before anything is judged."""

import string
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from stealtime.capacity.figures import OF_EACH_VCPU
from stealtime.capacity.guest import Kind
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.toml_errors import explain, parse
from stealtime.vocabulary.toml_table import Table

Verdict = Literal[
    "over-provisioned host",
    "efficiently provisioned",
    "over-committed host",
    "misplaced guests",
    "under-provisioned guest",
    "not judged",
]
GuestFigure = Literal[
    "vcpu_run_percent",
    "vcpu_wait_percent",
    "vcpu_wanted_percent",
    "vcpu_wait_share_percent",
    "vcpu_stretch",
    "wait_per_dispatch_ns",
    "stretch",
    "throttled_percent",
    "queue_per_vcpu",
    "guest_steal_percent",
    "guest_pressure_percent",
    "guest_swap_in_bytes_per_s",
    "guest_memory_available_percent",
    "emulator_run_percent",
    "emulator_wait_percent",
    "emulator_wait_share_percent",
    "io_run_percent",
    "io_wait_percent",
    "io_wait_share_percent",
    "idle_elsewhere_percent",
    "demand_if_spread_percent",
]
HostFigure = Literal[
    "cpu_busy_percent",
    "cpu_steal_percent",
    "memory_available_percent",
    "cpu_pressure_percent",
    "memory_pressure_percent",
    "io_pressure_percent",
    "memory_committed_percent",
    "swap_in_bytes_per_s",
    "least_guest_memory_available_percent",
    "vcpu_wait_cpus",
    "quota_held_cpus",
]
OF_EACH_PART = frozenset(
    {
        *OF_EACH_VCPU,
        "vcpu_stretch",
        *("cpu_busy_percent", "cpu_steal_percent"),
    }
)
"""Figures that each virtual CPU of a guest, or each CPU of the host, has; the others are of the whole."""
PLACEHOLDERS = frozenset(
    {
        *("guest", "vcpus", "suggested_vcpus", "quota_cpus", "suggested_quota_cpus"),
        *(
            "sharers",
            "demand_cpus",
            "capacity_cpus",
            "cpus",
            "relief",
            "account",
            "growth",
            "room",
            "room_where",
            "all_busy_percent",
        ),
    }
)
"""What ``why`` and ``change`` may hold in braces."""

_HINT = "the builtin rules show the form: `stealtime advise --print-rules`"


class Condition(Table):
    """What one figure must be."""

    figure: GuestFigure | HostFigure
    """Which one; its unit is in its name."""
    above: float | None = None
    """It must be more than this ..."""
    below: float | None = None
    """... or less than this: one of the two."""
    in_percent_of_samples: Annotated[float, Field(gt=0, le=100)] | None = None
    """Count the samples in which it is so, instead of judging the mean."""
    if_known: bool = False
    """Leave this condition out where its figure cannot be had; where it can, it decides like any other."""

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if (self.above is None) == (self.below is None):
            raise ValueError(f"the condition on {self.figure} needs one of `above` and `below`")
        return self


class Rule(Table):
    """When to say what."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    """By which it is quoted."""
    verdict: Verdict
    """What it says."""
    about: Literal["host", "guest"]
    """Whose figures it looks at. What a guest's rule says of the host is said of the host too."""
    kind: Kind | None = None
    """Only of guests of this kind; all without it."""
    of: Literal["any", "every"] = "any"
    """Whether it holds if it does of any CPU (virtual CPU), or only if of every one."""
    optional: bool = False
    """Whether a verdict may be given although a figure of this rule cannot be had."""
    uncalibrated: bool = False
    """Whether its limits were never held against guests whose work was timed inside: where it decides, that is said."""
    conditions: Annotated[list[Condition], Field(min_length=1)]
    """All of them must hold."""
    source: Annotated[str, Field(min_length=1)]
    """Who says so."""
    date: Annotated[str, Field(min_length=1)]
    """Since when."""
    why: Annotated[str, Field(min_length=1)]
    """What it means; may hold the figures of the case, in braces."""
    change: Annotated[str, Field(min_length=1)]
    """What to change; likewise."""

    @field_validator("why", "change")
    @classmethod
    def _known_placeholders(cls, text: str) -> str:
        try:
            names = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
        except ValueError as error:
            raise ValueError(f"{text!r} is no template: {error}") from None
        if unknown := sorted(names - PLACEHOLDERS):
            raise ValueError(f"{{{unknown[0]}}} is nothing that is known (known: {', '.join(sorted(PLACEHOLDERS))})")
        return text

    @model_validator(mode="after")
    def _figures_of_its_subject(self) -> Self:
        known = (GuestFigure if self.about == "guest" else HostFigure).__args__  # type: ignore[attr-defined]
        for condition in self.conditions:
            if condition.figure not in known:
                raise ValueError(f"{condition.figure} is no figure of a {self.about} (known: {', '.join(known)})")
        if self.about == "host" and self.kind is not None:
            raise ValueError(f"the rule {self.id} is about the host, which is no guest of the kind {self.kind!r}")
        if self.about == "host" and self.verdict == "under-provisioned guest":
            raise ValueError(f"the rule {self.id} is about the host and cannot say {self.verdict!r}")
        return self


class RuleBook(Table):
    """All rules, in the order in which they are tried."""

    schema_version: Literal[1]
    """Of this form of file."""
    confidence_percent: Annotated[float, Field(ge=50, lt=100)] = 95.0
    """Of the interval of a mean."""
    minimum_samples: Annotated[int, Field(ge=5)] = 10
    """With fewer nothing is judged."""
    rules: Annotated[list[Rule], Field(min_length=1)]
    """The first that holds gives the verdict; where none holds it is `efficiently provisioned`."""

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        names = [rule.id for rule in self.rules]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two rules are called {twice!r}")
        return self


def builtin_text() -> str:
    return (resources.files("stealtime.capacity") / "rules.toml").read_text("utf-8")


def load_rules(path: Path | None = None) -> RuleBook:
    """Read the rules.

    Args:
        path: A file that replaces the builtin ones.

    Raises:
        UsageError: It cannot be read, is no TOML, or holds no rules; the message names file, line and key.
    """
    if path is None:
        return read_rules(builtin_text(), "the builtin rules")
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} holds no rules: it is no UTF-8 text", hint=_HINT) from error
    except OSError as error:
        raise UsageError(f"the rules {path} cannot be read: {error.strerror}", hint=_HINT) from error
    return read_rules(text, str(path))


def read_rules(text: str, source: str) -> RuleBook:
    """Read rules from TOML.

    Raises:
        UsageError: See :func:`load_rules`.
    """
    document = parse(text, source, _HINT)
    try:
        return RuleBook.model_validate(document)
    except ValidationError as error:
        raise explain(error, document, text, source, RuleBook, _HINT) from error
