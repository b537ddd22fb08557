"""Findings: what limits or invalidates a result."""

from typing import Literal

from stealtime.vocabulary.readings import Model


class Finding(Model):
    """Something that a reader of the result must know."""

    code: str
    level: Literal["limits", "invalidates"]
    text: str
    hint: str | None = None
