"""What is generated of the messages' schema declares the same messages as the schema does."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel, TypeAdapter
from schema_shape import shape, shape_here, stored

from stealtime.wire.message import from_agent, to_agent


@pytest.mark.parametrize(("direction", "adapter"), [("ToAgent", to_agent), ("FromAgent", from_agent)])
def test_both_sides_declare_the_same_messages(direction: str, adapter: TypeAdapter[Any]) -> None:
    definitions = stored("messages.schema.json")["$defs"]
    theirs = shape(definitions[direction], definitions)
    ours = shape_here(adapter)
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

    whole = shape_here(Hello)
    assert whole == shape_here(Hello)
    assert whole != shape_here(LongerHello)
    assert whole != shape_here(OtherHello)
