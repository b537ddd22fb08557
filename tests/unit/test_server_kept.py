"""Which server the driver of telephony takes for a trial, and once more after a trial that is begun anew."""

from pathlib import Path
from typing import Any, cast

import pytest

from stealtime.hosts.guest import ProtectionLostError
from stealtime.hosts.host import NotProtectedError
from stealtime.studies.telephony.driver import ServerDriver, Stage
from stealtime.studies.telephony.parameters import ServerParameters
from stealtime.vocabulary.errors import StealtimeError

NET = ServerParameters(mode="net", interval_ns=100_000_000)


class Places:
    """Servers that do nothing, and what was asked of each."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def new(self, serial: int, _wanted: ServerParameters) -> Any:
        return _Place(self.asked, serial)


class _Place:
    def __init__(self, asked: list[tuple[str, int]], serial: int) -> None:
        self._asked, self._serial = asked, serial

    def start(self) -> None:
        self._asked.append(("start", self._serial))

    def stop(self) -> None:
        self._asked.append(("stop", self._serial))


@pytest.fixture
def places() -> Places:
    return Places()


@pytest.fixture
def driver(places: Places, tmp_path: Path) -> ServerDriver:
    nobody = cast(Any, None)
    return ServerDriver(nobody, nobody, tmp_path, tmp_path, Stage(places.new))


def test_a_server_is_kept_until_another_one_is_wanted(driver: ServerDriver, places: Places) -> None:
    assert driver.kept_for(NET) is driver.kept_for(NET)
    driver.kept_for(NET.model_copy(update={"cpus": 2}))
    assert places.asked == [("start", 1), ("stop", 1), ("start", 2)]


@pytest.mark.parametrize(
    ("error", "is_kept"),
    [(ProtectionLostError("its standby"), True), (NotProtectedError("moved"), False), (StealtimeError("it"), False)],
)
def test_a_server_that_lost_only_its_standby_is_taken_once_more(
    driver: ServerDriver, places: Places, error: StealtimeError, is_kept: bool
) -> None:
    first = driver.kept_for(NET)
    driver.before_retry(error)
    assert (driver.kept_for(NET) is first) == is_kept
    assert places.asked == [("start", 1)] if is_kept else [("start", 1), ("stop", 1), ("start", 2)]
