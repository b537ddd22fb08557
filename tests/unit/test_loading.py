"""What is loaded, and when: a run reads no table before it boots, and a command waits for no other one."""

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


def test_a_command_loads_no_other_command() -> None:
    program = "import sys; sys.argv = ['stealtime', 'ls', '-h']; from stealtime import cli\n"
    program += "try: cli.main()\nexcept SystemExit: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = {name for name in done.stdout.split() if name.startswith("stealtime.cli.")}
    assert "stealtime.cli.ls" in loaded
    assert not {f"stealtime.cli.{name}" for name in ("run", "watch", "protect", "sched", "fleet", "check")} & loaded
