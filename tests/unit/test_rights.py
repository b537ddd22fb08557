"""What a user may do: each task that is refused comes with the reason and with what helps."""

import io
import os
from pathlib import Path

import pytest
from fabricated_machine import FabricatedAttempts, fabricate
from rich.console import Console

from stealtime.doctor.document import make_document
from stealtime.doctor.rights import Right, examine_rights
from stealtime.doctor.table import FindingsTable

CAPABLE = {"/proc/self/status": "CapEff:\t000001ffffffffff\n"}


def rights_of(root: Path, attempts: FabricatedAttempts) -> dict[str, Right]:
    return {right.id: right for right in examine_rights(fabricate(root, CAPABLE), attempts)}


def printed(rights: dict[str, Right]) -> str:
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(FindingsTable(make_document([], list(rights.values()))))
    return out.getvalue()


@pytest.mark.skipif(os.geteuid() != 0, reason="whether a laboratory may be made is asked of the real user")
def test_who_may_do_everything_is_told_nothing(tmp_path: Path) -> None:
    rights = rights_of(tmp_path, FabricatedAttempts())
    assert [right for right in rights.values() if not right.works or right.fix is not None] == []
    assert "what this user may do" not in printed(rights)


def test_what_is_refused_is_listed_with_the_reason_and_what_helps(tmp_path: Path) -> None:
    attempts = FabricatedAttempts(refused={"sched_fifo": "not permitted", "trace_clock": "permission denied"})
    rights = rights_of(tmp_path, attempts)
    assert not rights["realtime"].works
    assert not rights["causes"].works
    assert "permission denied" in rights["causes"].because
    assert rights["runs"].works
    assert rights["guests"].works
    text = printed(rights)
    assert "what this user may do" in text
    for right in rights.values():
        assert right.task.split()[0] in text
        assert (right.fix is None) is right.works


def test_root_without_the_capabilities_of_root_is_told_which(tmp_path: Path) -> None:
    files = fabricate(tmp_path, {"/proc/self/status": "CapEff:\t0000000000000000\n"})
    [right] = [right for right in examine_rights(files, FabricatedAttempts()) if right.id == "protect"]
    assert not right.works
    assert right.fix is not None


def test_every_right_is_in_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/doctor.md").read_text("utf-8").split("## Without root")[1]
    assert [name for name in rights_of(tmp_path, FabricatedAttempts()) if f"| `{name}` |" not in page] == []
