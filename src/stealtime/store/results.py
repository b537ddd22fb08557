"""What came out of a trial, by its kind: a part of ``trial.json`` and the Parquet files beside it.

A kind belongs to the probes that name it. Nothing here knows which kinds there are: the record tells the name of its
kind and of its tables, so that a run can be looked over, checked and copied without the study that measured it.
"""

from typing import TypeVar

from pydantic import ConfigDict

from stealtime.vocabulary.readings import Model


class Result(Model):
    """``result`` of ``trial.json``; each kind adds its own fields."""

    # What a kind adds is kept as it was read until it is asked for by that kind.
    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str
    tables: tuple[str, ...]
    """Each is a Parquet file of this name in the trial's folder."""


OwnResult = TypeVar("OwnResult", bound=Result)


def read_as(result: Result, model: type[OwnResult]) -> OwnResult:
    """Give a result as one of its kind.

    Raises:
        pydantic.ValidationError: It is of another kind, or damaged.
    """
    if isinstance(result, model):
        return result
    return model.model_validate({"kind": result.kind, "tables": result.tables, **(result.model_extra or {})})
