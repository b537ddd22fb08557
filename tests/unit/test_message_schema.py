"""The messages as both sides declare them: the schema that the Rust types gave, and that of the models here."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel, TypeAdapter
from schema_shape import shape_here, stored, whole_shape

from stealtime.wire.message import from_agent, to_agent


@pytest.mark.parametrize(("direction", "adapter"), [("to_agent", to_agent), ("from_agent", from_agent)])
def test_both_sides_declare_the_same_messages(direction: str, adapter: TypeAdapter[Any]) -> None:
    theirs = whole_shape(stored("messages.schema.json")[direction])
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
