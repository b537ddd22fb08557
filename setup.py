"""Ends a build on a machine that stealtime does not run on with one sentence, and has the agent linked statically.

All else is in ``pyproject.toml``.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "src"))
from stealtime.vocabulary.supported import HINT, what_is_missing

missing = what_is_missing()
if missing is not None:
    sys.exit(f"error: {missing}\nhint: {HINT}")

os.environ.setdefault("CARGO", str(Path(__file__).parent.absolute() / "tools/cargo.sh"))

from setuptools import setup  # noqa: E402 - it would have complaints of its own elsewhere

setup()
