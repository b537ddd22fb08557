"""Machines that tests share."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from machines import NAMES, marked_processes, request_for, require_usable, temporary_folders

from stealtime.lab.platforms import registry
from stealtime.lab.platforms.model import Machine
from stealtime.lab.platforms.process import run_mark


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=NAMES)
async def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Machine]:
    """Each platform that is usable here, booted once for all tests."""
    name = str(request.param)
    await require_usable(name)
    folder = tmp_path_factory.mktemp(name)
    before = set(marked_processes(run_mark()))
    async with registry.find(name).boot(request_for(folder)) as booted:
        yield booted
    assert set(marked_processes(run_mark())) <= before, "a process of the machine outlived it"
    assert temporary_folders() == [], "a temporary folder outlived the machine"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def native(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Machine]:
    """The machine that the tests run on, for what is proven natively."""
    async with registry.find("native").boot(request_for(tmp_path_factory.mktemp("native"))) as booted:
        yield booted
