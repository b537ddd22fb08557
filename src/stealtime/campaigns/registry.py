"""Which studies there are, and which of them a probe belongs to."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

from stealtime.campaigns.parameters import Parameters
from stealtime.campaigns.probe import Probe
from stealtime.campaigns.study import Study
from stealtime.store.model import Cell
from stealtime.vocabulary.errors import StealtimeError

_added: list[Study] = []


def studies() -> tuple[Study, ...]:
    """Give the studies that come with stealtime, then those that were added."""
    return (*_builtin(), *_added)


def probes() -> dict[str, Probe]:
    """Give the probes of all studies by name, in the order in which tables and figures show them."""
    return {probe.name: probe for study in studies() for probe in study.probes}


def parameters_of(cell: Cell) -> Parameters:
    """Give the parameters of a cell of one of the probes that there are."""
    return probes()[cell.probe].cells.parameters.of(cell)


def study_of(probe: str) -> Study:
    """Give the study that a probe belongs to.

    Raises:
        StealtimeError: There is none, as in a run of another version.
    """
    for study in studies():
        if any(own.name == probe for own in study.probes):
            return study
    raise StealtimeError(
        f"no study of this version has a probe {probe!r}", hint="read the run with the version that measured it"
    )


@contextmanager
def added(study: Study) -> Iterator[None]:
    """Make a study known that does not come with stealtime.

    Raises:
        ValueError: One of its probes has the name of another study's.
    """
    if twins := probes().keys() & {probe.name for probe in study.probes}:
        raise ValueError(f"the study {study.name} redefines probes: {', '.join(sorted(twins))}")
    _added.append(study)
    try:
        yield
    finally:
        _added.remove(study)


@cache
def _builtin() -> tuple[Study, ...]:
    """Load them by name, once one is asked for: this room imports no study, and `stealtime -h` loads none."""
    return tuple(import_module(name).STUDY for name in import_module("stealtime.studies").BUILTIN)
