"""The machine that tests share, and the logs of its members when a test has failed."""

from collections.abc import Generator, Iterator

import pytest
from two_hosts import TwoHosts, keep_evidence, laboratory_or_skip
from watched import Shared, Watched

_SHARED = Shared()
_HAS_FAILED = pytest.StashKey[bool]()
_SHARES_NO_MORE = pytest.StashKey[bool]()


@pytest.fixture
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    """A protected machine; the next test finds another one if this one fails."""
    yield _SHARED.take()
    has_failed = request.node.stash.get(_HAS_FAILED, False)
    if has_failed or request.node.stash.get(_SHARES_NO_MORE, True):
        _SHARED.end(has_failed=has_failed)


@pytest.fixture(scope="module")
def protected_hosts() -> Iterator[TwoHosts]:
    """Two hosts and a protected guest, for the tests of one file, after each of which it is protected again."""
    with laboratory_or_skip() as laboratory:
        hosts = TwoHosts(laboratory, interval="50ms")
        hosts.boot()
        yield hosts


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests that share the machine follow each other, so that it stands beside no other one."""
    items.sort(key=_shares)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Note whether the machine is wanted by the next test, too."""
    item.stash[_SHARES_NO_MORE] = nextitem is None or not _shares(nextitem)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name the folder with the evidence below the failure."""
    report = yield
    if report.failed:
        item.stash[_HAS_FAILED] = True
        kept = keep_evidence()
        if kept is not None:
            report.sections.append(("evidence", f"what the members wrote is in {kept}"))
    return report


def _shares(item: pytest.Item) -> bool:
    return "watched" in getattr(item, "fixturenames", ())
