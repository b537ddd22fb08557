"""Findings: what limits or invalidates a result.

Generated from the Rust types. After a change of ``crates/wire``::

    UPDATE_GOLDEN=1 cargo test -p stealtime-wire
    UPDATE_GOLDEN=1 pytest tests/unit/test_message_models.py
"""

from typing import Literal

from stealtime.vocabulary.readings import Model

FindingLevel = Literal["limits", "invalidates"]
"""How much a finding matters.

- ``limits``: The result stands, but is limited by this.
- ``invalidates``: The result must not be used.
"""


class Finding(Model):
    """Something that a reader of the result must know."""

    code: str
    """A fixed name: ``rt_throttling``, ``no_sched_fifo``, ``tsc_not_constant``, ``busy_sibling`` ..."""
    level: FindingLevel
    """How much it matters."""
    text: str
    """One sentence with the value."""
    hint: str | None = None
