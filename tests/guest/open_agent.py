"""The agent where every user may execute it: a checkout, as pytest's folders, may lie where only its owner looks."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stealtime.lab.platforms.agent_binary import find_agent


@contextmanager
def open_agent() -> Iterator[Path]:
    """Give a copy of it while the block runs."""
    with tempfile.TemporaryDirectory(prefix="stealtime-agent-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        copy = Path(folder) / "stealtime-agent"
        shutil.copyfile(find_agent(), copy)
        copy.chmod(0o755)
        yield copy
