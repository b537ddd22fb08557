"""What the benchmarks of protection share: hosts with protected guests, a bare QEMU, and what the figures mean."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests/rigs"))
