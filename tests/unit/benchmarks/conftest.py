"""Puts the benchmarks' shared modules where a benchmark finds them: beside itself."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks" / "protect"))
