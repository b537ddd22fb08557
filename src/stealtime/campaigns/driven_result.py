"""What a driver stores of a trial, whatever it measured: a base of the results of studies that have one."""

from pydantic import ConfigDict

from stealtime.store.results import Result


class DrivenResult(Result):
    """``result`` of ``trial.json``, of a trial that :class:`.blocking_driver.BlockingDriver` carried out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tables: tuple[str, ...] = ()
    retries: int = 0
    """How often the trial was begun anew, because a guest had lost its standby meanwhile: nothing of that is counted in
    the others."""
