"""A table of a TOML file that a person writes, as a model."""

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """A table of the file: its keys are the aliases of the fields, and an unknown one is refused."""

    # The docstrings of the fields are the descriptions that `stealtime schema` prints.
    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True, use_attribute_docstrings=True
    )
