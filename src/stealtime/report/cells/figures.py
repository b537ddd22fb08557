"""The base of all models of figures."""

from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue


class Figures(BaseModel):
    """A part of the document: nothing unknown is accepted and nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NamedCell(Figures):
    """A part that is about one cell."""

    platform: str
    scenario: str
    probe: str
    parameters: dict[str, JsonValue]

    @staticmethod
    def naming(cell: Any) -> dict[str, Any]:
        """Give these fields as those of a cell's figures."""
        return {name: getattr(cell, name) for name in NamedCell.model_fields}
