"""A reading is a value, or absent with a reason: absent is not zero."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Unsigned = Annotated[int, Field(ge=0)]
"""An integer without a sign, as the agent counts."""


STRICT = ConfigDict(extra="forbid")
"""Of a dataclass that documents hold as it is: nothing unknown is accepted."""


class Model(BaseModel):
    """A part of a document or of a message: nothing unknown is accepted and nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Value(Model):
    """A reading that was made."""

    value: JsonValue


class Absent(Model):
    """A reading that could not be made, and why."""

    absent: str


Reading = Value | Absent
Facts = dict[str, Reading]
"""What a machine says about itself: ``kernel_release``, ``clocksource``, ``cpu_model`` ..."""
