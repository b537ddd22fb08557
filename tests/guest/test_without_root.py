"""What doctor tells an ordinary user of his rights is what happens to him: what is refused, and what is not."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from machines import needs_root
from ordinary_user import OrdinaryUser

from stealtime.vocabulary.errors import WHAT_WORKS_HINT

pytestmark = [pytest.mark.guest, pytest.mark.beside, needs_root]

STEALTIME = (sys.executable, "-c", "from stealtime.start import main; main()")
ALWAYS = {"runs", "guests", "blackout"}
NEVER = {"lift", "causes", "protect"}
"""Without root."""


def words(text: str) -> str:
    return " ".join(text.split())


def examined(user: OrdinaryUser) -> dict[str, Any]:
    asked = user.run(*STEALTIME, "doctor", "--json", timeout_s=120)
    assert asked.returncode in (0, 4), asked.stderr
    return dict(json.loads(asked.stdout))


def test_doctor_tells_an_ordinary_user_what_works_without_root_and_that_is_true(tmp_path: Path) -> None:
    user = OrdinaryUser(tmp_path)
    document = examined(user)
    if "check the network" in json.dumps(document["findings"]):
        user.take_kernels()
        document = examined(user)
    rights = {right["id"]: right for right in document["rights"]}
    does = {name for name, right in rights.items() if right["works"]}
    assert does >= ALWAYS
    assert not does & NEVER, "root's alone"
    assert all(bool(right["fix"]) is not right["works"] for right in rights.values())

    # What works: a guest really booted for this user, and a command that reads runs finds that he has none.
    findings = {finding["id"]: finding for finding in document["findings"]}
    assert findings["platform:uml"]["level"] == "ok", findings["platform:uml"]
    assert findings["platform:qemu-tcg-paravirt"]["level"] == "ok", findings["platform:qemu-tcg-paravirt"]
    listed = user.run(*STEALTIME, "ls", "--json")
    assert listed.returncode == 0, listed.stderr
    advised = user.run(*STEALTIME, "advise", "--for", "10s")
    assert "Traceback" not in advised.stderr
    assert (advised.returncode in (0, 3, 4)) is rights["capacity"]["works"], advised.stderr

    # What does not, is refused with the same reason, and the hint leads to this list.
    for name, command in (
        ("protect", ("protect", "demo")),
        ("lift", ("run", "-D", "1s", "-P", "native", "--lift-rt-throttling", "--dry-run")),
    ):
        refused = user.run(*STEALTIME, *command)
        assert refused.returncode == 1, refused.stdout + refused.stderr
        assert rights[name]["because"] in words(refused.stderr)
        assert WHAT_WORKS_HINT in words(refused.stderr)
