"""What every test leaves as it found it."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def same_cpus() -> Iterator[None]:
    """Keep the CPUs that this process may use: tests that run after one that lost some would measure something else."""
    before = os.sched_getaffinity(0)
    yield
    after = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before)
    assert after == before, f"the test leaves this process on the CPUs {sorted(after)} instead of {sorted(before)}"
