"""The packages, as fixtures."""

from pathlib import Path

import pytest
from built_packages import only


@pytest.fixture(scope="session")
def wheel() -> Path:
    return only("stealtime-*.whl")


@pytest.fixture(scope="session")
def agent_deb() -> Path:
    return only("stealtime-agent_*.deb")


@pytest.fixture(scope="session")
def replicator_deb() -> Path:
    return only("stealtime-replicator_*.deb")


@pytest.fixture(scope="session")
def image() -> Path:
    return only("stealtime-agent-*.oci.tar")
