"""Refusals on the real native platform: an agent of another version, and missing root privileges."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from machines import needs_root
from ordinary_user import NOBODY, open_to_others

import stealtime
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.wire.message import PROTOCOL_VERSION

pytestmark = [pytest.mark.guest, pytest.mark.beside]

STEALTIME = str(Path(sys.executable).parent / "stealtime")
TIMEOUT_S = 120

# What a control plane asks of an agent binary: to restore, to guard a command, and to serve.
OTHER_AGENT = """#!{python}
import os, sys
if sys.argv[1] == "guard":
    command = sys.argv[sys.argv.index("--") + 1:]
    os.execvp(command[0], command)
if sys.argv[1] == "serve":
    payload = b'{{"type": "hello", "protocol": 999, "agent_version": "99.1.2", "facts": {{}}}}'
    sys.stdout.buffer.write(len(payload).to_bytes(4, "little") + bytes([1]) + payload)
    sys.stdout.buffer.flush()
    sys.stdin.buffer.read()
"""


def test_an_agent_of_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    agent = tmp_path / "stealtime-agent"
    agent.write_text(OTHER_AGENT.format(python=sys.executable))
    agent.chmod(0o755)
    ended = subprocess.run(
        [STEALTIME, "run", "quick", "-P", "native", "-D", "100ms"],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "STEALTIME_AGENT": str(agent)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    words = " ".join(ended.stderr.split())
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    assert "is version 99.1.2 and speaks protocol 999" in words
    assert f"this is stealtime {stealtime.__version__} and speaks protocol {PROTOCOL_VERSION}" in words
    assert "hint:" in words


ANOTHER_USER = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all")
ROOT_WITHOUT_CAPABILITIES = ("--bounding-set=-all", "--inh-caps=-all")


@needs_root
@pytest.mark.parametrize(
    ("privileges", "user"),
    [
        pytest.param(ANOTHER_USER, NOBODY, id="another user"),
        pytest.param(ROOT_WITHOUT_CAPABILITIES, 0, id="root without capabilities", marks=pytest.mark.truth),
    ],
)
def test_without_root_what_can_be_measured_is_measured_and_the_rest_is_invalid(
    tmp_path: Path, privileges: tuple[str, ...], user: int
) -> None:
    setpriv = shutil.which("setpriv")
    assert setpriv is not None, "setpriv is not installed: apt-get install util-linux"
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    open_to_others(tmp_path)
    os.chown(home, user, user)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "STEALTIME_"))}
    environment = {**kept, "HOME": str(home), "TMPDIR": str(home)}
    reachable = [setpriv, *privileges, STEALTIME, "--version"]
    if subprocess.run(reachable, env=environment, cwd=home, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{STEALTIME} lies in a folder that is closed to user {user}")

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [setpriv, *privileges, *command],
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    ended = run(STEALTIME, "run", "quick", "-P", "native", "-D", "300ms", "-t", "2", "--repetitions", "1")
    assert ended.returncode == 4, ended.stderr
    assert "Traceback" not in ended.stderr
    words = " ".join((ended.stdout + ended.stderr).split())
    assert "SCHED_FIFO priority 80 was refused" in words, words
    assert "1 cells are invalid: native.alone.switch-2.r1" in words, words
    assert "RT throttling" not in words, "who was refused SCHED_FIFO is not throttled"
    report = next(home.glob("**/report.html"))
    assert report.stat().st_uid == user
    # What is left is not what was asked for, and passes no threshold, however high it is.
    gated = run(
        *(STEALTIME, "run", "quick", "-P", "native", "-D", "50ms", "--probe", "tick", "--repetitions", "1"),
        *("--max-overhead", "10s", "--junit", "cells.xml"),
    )
    assert gated.returncode == 4, gated.stderr
    assert "not judged by --max-overhead 10s: native tick: not measured as asked: SCHED_FIFO priority 80" in " ".join(
        gated.stderr.split()
    )
    assert 'type="not as asked"' in (home / "cells.xml").read_text()
    alone = run(str(find_agent()), "tick", "-D", "50ms", "-b", "10s")
    assert (alone.returncode, "was refused" in alone.stdout) == (4, True), alone.stdout + alone.stderr
