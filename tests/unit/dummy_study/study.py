"""The whole study: its probe, what is stored of a trial, its figures, its registration."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict

from stealtime.campaigns.parameters import Parameters
from stealtime.campaigns.probe import Probe, ProbeCells
from stealtime.report.catalogue.model import Catalogue, Figure, FigureTable, ProbeFigures, counts
from stealtime.report.catalogue.study import CatalogueStudy
from stealtime.store.model import TrialRecord
from stealtime.store.result_kinds import ResultKind, Streams
from stealtime.store.results import Result
from stealtime.store.run import Run
from stealtime.store.tables import write_parquet
from stealtime.wire.message import WakeupProbe, WholeOutcome


class EchoParameters(Parameters):
    shouts: int

    def request(self, _iterations: Mapping[int, int], _repetition: int) -> WakeupProbe:
        """The agent's wake-ups play the echoes."""
        return WakeupProbe(interval_ns=1_000 * self.shouts)


class EchoCells(ProbeCells):
    parameters = EchoParameters

    probe: Literal["echo"]
    shouts: list[int]


class Echoes(Result):
    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["echoes"] = "echoes"
    tables: tuple[str, ...] = ("loudness",)
    came_back: int
    watched_ns: int


def make(done: WholeOutcome) -> Echoes:
    return Echoes(came_back=done.counters["recorded"], watched_ns=done.counters["watched_ns"])


def write_loudness(streams: Streams, target: Path, _record: TrialRecord) -> None:
    write_parquet(streams["samples"], target, {"unit": "furlong"})


ECHOES = ResultKind(name="echoes", make=make, tables={"loudness": write_loudness}, needs=("samples",))
ECHO = Probe(name="echo", cells=EchoCells, short=("shouts",), result=ECHOES)
GONE_BY_NS, WHOLE_NS = 100_000, 1_000_000
CATALOGUE = Catalogue(
    title="Echoes",
    question="What comes back?",
    probes={
        "echo": ProbeFigures(
            Echoes,
            {
                "echoes": Figure("echoes", lambda one: one.came_back),
                "wait_ns": Figure("wait for one", lambda one: one.watched_ns / one.came_back),
                **counts("came_back"),
            },
            invalid=lambda one: [] if one.watched_ns > GONE_BY_NS else ["the nymph had not begun"],
        )
    },
    tables=(FigureTable("Echoes", ("echoes", "wait_ns", "came_back")),),
    limits=lambda results: ["she was cut short"] if any(one.watched_ns < WHOLE_NS for one in results) else [],
    contents="no echo at all",
)


class EchoStudy(CatalogueStudy):
    name = "echo"
    probes = (ECHO,)
    folder = resources.files("dummy_study")
    catalogue = CATALOGUE

    def explanation(self, run: Run) -> str:
        return f"{len(run.measured)} trials echoed for want of a reply"


STUDY = EchoStudy()
