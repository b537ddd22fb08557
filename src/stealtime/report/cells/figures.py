"""The base of all models of figures."""

from pydantic import BaseModel, ConfigDict


class Figures(BaseModel):
    """A part of the document: nothing unknown is accepted and nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
