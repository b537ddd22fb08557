"""A field whose type is built when a value is validated: by then all studies are registered."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True)
class LateType:
    """Stands in ``Annotated`` beside what all values have in common."""

    make: Callable[[], Any]
    """Gives the type of today, for example a union of tables."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate by the type of today; what is written is decided by the value's own model."""
        return core_schema.with_info_plain_validator_function(
            # The errors of the inner validation keep their places in the document.
            lambda value, info: TypeAdapter(self.make()).validate_python(value, context=info.context),
            serialization=core_schema.simple_ser_schema("any"),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Tell the type of today."""
        return handler(TypeAdapter(self.make()).core_schema)
