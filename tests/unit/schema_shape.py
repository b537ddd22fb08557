"""What a JSON Schema lets be written, so that the schemas of Rust types and of pydantic models can be compared."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

GOLDEN = Path(__file__).parents[1] / "golden"
ANYTHING = "anything"


def stored(file: str) -> Any:
    """Give the schemas that Rust types gave, as `tests/golden` keeps them."""
    return json.loads((GOLDEN / file).read_text())


def whole_shape(schema: Any) -> Any:
    """Reduce a whole schema, with its definitions, to what is written."""
    return shape(schema, schema.get("$defs", {}))


def shape_here(model: TypeAdapter[Any] | type[BaseModel]) -> Any:
    """Give the shape of what is written of a model."""
    adapter: TypeAdapter[Any] = model if isinstance(model, TypeAdapter) else TypeAdapter(model)
    return whole_shape(adapter.json_schema(mode="serialization", by_alias=True))


def shape(schema: Any, definitions: dict[str, Any]) -> Any:
    """Reduce a schema to what is written: alternatives, names and types, without bounds, formats and comments."""
    if schema is True or not schema:
        return ANYTHING
    if "$ref" in schema:
        named = definitions[schema["$ref"].removeprefix("#/$defs/")]
        # Rust's tag of a variant stands beside the reference to the rest of it.
        tag = schema.get("properties", {})
        return shape({**named, "properties": named["properties"] | tag} if tag else named, definitions)
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return one_of(shape(alternative, definitions) for alternative in schema[key])
    if "const" in schema:
        return ("const", schema["const"])
    if "enum" in schema:
        return one_of(("const", value) for value in schema["enum"])
    kind = schema.get("type", ANYTHING)
    if isinstance(kind, list):
        return one_of(shape({**schema, "type": one}, definitions) for one in kind)
    if kind == "array":
        return ("array", shape(schema.get("items"), definitions))
    if kind != "object":
        return kind
    if "properties" in schema:
        parts = ((name, shape(part, definitions)) for name, part in schema["properties"].items())
        return ("object", frozenset(parts))
    return ("map", shape(schema.get("additionalProperties"), definitions))


def one_of(shapes: Any) -> Any:
    """Join alternatives; those of alternatives are alternatives too."""
    joined: set[Any] = set()
    for one in shapes:
        joined |= one if isinstance(one, frozenset) else {one}
    return frozenset(joined) if len(joined) > 1 else joined.pop()
