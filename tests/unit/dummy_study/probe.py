"""``echo``: how many echoes come back; the agent's wake-ups play the echoes."""

from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue

from dummy_study.stored import ECHOES
from stealtime.campaigns.probe import Probe, ProbeCells, ShortProbe, whole
from stealtime.wire.message import WakeupProbe

NS_A_SHOUT = 1_000


class EchoCells(ProbeCells):
    probe: Literal["echo"]
    shouts: list[int]

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        return [{"shouts": shouts} for shouts in self.shouts]


class ShortEcho(ShortProbe):
    shouts: list[int] | None = None


def request(parameters: Mapping[str, JsonValue], _iterations: Mapping[int, int], _repetition: int) -> WakeupProbe:
    return WakeupProbe(interval_ns=NS_A_SHOUT * whole(parameters["shouts"]))


ECHO = Probe(name="echo", cells=EchoCells, request=request, short=ShortEcho, result=ECHOES)
