"""A field whose type may change while the program runs: what was registered last counts, and nothing is built twice."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from stealtime.vocabulary import late_type
from stealtime.vocabulary.late_type import LateType

today: list[Any] = [int]


class Holder(BaseModel):
    """Has one field of that kind."""

    value: Annotated[Any, LateType(lambda: today[0])]


@pytest.fixture(autouse=True)
def of_int() -> None:
    today[0] = int


def test_the_type_of_today_counts_after_another_one_did() -> None:
    assert Holder.model_validate({"value": "3"}).value == 3
    today[0] = list[int]
    assert Holder.model_validate({"value": ["3"]}).value == [3]
    with pytest.raises(ValidationError, match="list"):
        Holder.model_validate({"value": "3"})
    today[0] = int
    assert Holder.model_validate({"value": "3"}).value == 3


def test_an_equal_type_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    def building(kind: Any) -> TypeAdapter[Any]:
        built.append(kind)
        return TypeAdapter(kind)

    monkeypatch.setattr(late_type, "TypeAdapter", building)
    today[0] = dict[str, int]
    for _ in range(3):
        Holder.model_validate({"value": {"a": 1}})
    assert built == [dict[str, int]]
