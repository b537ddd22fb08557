"""A field whose type is built when a value is validated: by then all studies are registered."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True)
class LateType:
    """Stands in ``Annotated`` beside what all values have in common."""

    make: Callable[[], Any]
    """Gives the type of today, for example a union of tables: an equal one as long as nothing was registered."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate by the type of today; what is written is decided by the value's own model."""
        built: list[tuple[Any, TypeAdapter[Any]]] = []

        def validate(value: Any, info: ValidationInfo) -> Any:
            today = self.make()
            if not built or built[0][0] != today:
                built[:] = [(today, TypeAdapter(today))]
            # The errors of the inner validation keep their places in the document.
            return built[0][1].validate_python(value, context=info.context)

        return core_schema.with_info_plain_validator_function(
            validate, serialization=core_schema.simple_ser_schema("any")
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Tell the type of today."""
        return handler(TypeAdapter(self.make()).core_schema)
