"""What a run loads before it boots: what reads and writes tables takes half a second, in which no machine boots yet."""

import subprocess
import sys

_HEAVY = {"numpy", "pyarrow", "scipy", "duckdb"}
_PROGRAM = """
import sys
import stealtime.campaigns.session
from stealtime.campaigns.registry import studies
studies()
print(*(name for name in sys.modules if "." not in name))
"""


def test_no_library_of_tables_is_loaded_for_a_boot() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert "stealtime" in loaded
    assert not loaded & _HEAVY
