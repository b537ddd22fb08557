"""Puts the benchmarks' shared modules where a benchmark finds them: beside itself."""

import sys
from pathlib import Path

_BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
sys.path += [str(_BENCHMARKS), str(_BENCHMARKS / "protect")]
