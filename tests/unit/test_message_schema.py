"""The messages as both sides declare them: the schema that the Rust types gave, and that of the models here."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, TypeAdapter

from stealtime.wire.message import from_agent, to_agent

GOLDEN = Path(__file__).parents[1] / "golden" / "messages.schema.json"
ANYTHING = "anything"


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


def shapes_here(adapter: TypeAdapter[Any]) -> Any:
    schema = adapter.json_schema(mode="serialization")
    return shape(schema, schema.get("$defs", {}))


@pytest.mark.parametrize(("direction", "adapter"), [("to_agent", to_agent), ("from_agent", from_agent)])
def test_both_sides_declare_the_same_messages(direction: str, adapter: TypeAdapter[Any]) -> None:
    schema = json.loads(GOLDEN.read_text())[direction]
    theirs = shape(schema, schema["$defs"])
    ours = shapes_here(adapter)
    assert ours - theirs == frozenset(), "only here"
    assert theirs - ours == frozenset(), "only in Rust"


def test_a_field_that_only_one_side_has_is_found() -> None:
    class Hello(BaseModel):
        type: Literal["hello"]
        protocol: int

    class LongerHello(Hello):
        facts: dict[str, str | None]

    class OtherHello(Hello):
        protocol: str  # type: ignore[assignment] # as a field that drifted

    whole = shapes_here(TypeAdapter(Hello))
    assert whole == shapes_here(TypeAdapter(Hello))
    assert whole != shapes_here(TypeAdapter(LongerHello))
    assert whole != shapes_here(TypeAdapter(OtherHello))
