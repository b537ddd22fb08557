"""Fixtures of all rings: the CPU affinity is restored after each test, and figures are printed at the end."""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

from stealtime.lab.scenarios.cpu_claims import FOLDER_VARIABLE

# Hypothesis fails a test whose example takes 200 ms, which on a busy machine says nothing of the test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

pytest_plugins = ["skips"]

_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture(autouse=True)
def same_cpus() -> Iterator[None]:
    """Keep the CPUs that this process may use: tests that run after one that lost some would measure something else."""
    before = os.sched_getaffinity(0)
    yield
    after = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before)
    assert after == before, f"the test leaves this process on the CPUs {sorted(after)} instead of {sorted(before)}"


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """Let what tests start be interrupted: in the background of a shell, SIGINT is ignored by all that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def own_claims(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Claim CPUs from nobody outside of these tests, nor from those that run at the same time."""
    os.environ[FOLDER_VARIABLE] = str(tmp_path_factory.mktemp("claims"))


@pytest.fixture(scope="session")
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Take a line for the end of pytest's output: a figure is not asserted, but shown."""
    return request.config.stash.setdefault(_FIGURES, []).append


def pytest_collection_finish() -> None:
    """Spare the collector what lives as long as the session: looking through it took 8 % of the unit ring."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand a worker's figures to the process that prints."""
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["figures"] = session.config.stash.get(_FIGURES, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take them over."""
    node.config.stash.setdefault(_FIGURES, []).extend(getattr(node, "workeroutput", {}).get("figures", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    figures = config.stash.get(_FIGURES, [])
    if figures:
        terminalreporter.section("figures from this machine")
        for line in figures:
            terminalreporter.write_line(line)
