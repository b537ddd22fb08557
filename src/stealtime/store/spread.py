"""How a campaign is spread over hosts: a part of its cells on each, or all of them on each."""

from typing import Literal

from pydantic import Field

from stealtime.vocabulary.readings import Model


class Shard(Model):
    """One of several parts of a campaign, each of which one host measures."""

    kind: Literal["shard"] = "shard"
    index: int = Field(ge=1)
    """From 1."""
    count: int = Field(ge=1)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


class EachHost(Model):
    """Every host measures the whole campaign."""

    kind: Literal["each-host"] = "each-host"


Spread = Shard | EachHost
