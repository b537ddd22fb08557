"""A guest's own view by QEMU's guest agent: what it answers, and what is made of it."""

import base64
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stealtime.capacity.guests.agent_view import AgentView, RefusedError, returned
from stealtime.capacity.guests.command_line import read_guest
from stealtime.vocabulary.readings import Absent

RECORDED = json.loads((Path(__file__).parent / "recorded_counters/qemu-ga-11.1.3.json").read_text())
STAT = b"cpu  1 0 0 9\ncpu0 1 0 0 9 0 0 0 5 0 0\ncpu1 1 0 0 9 0 0 0 5 0 0\nintr 1\nprocs_running 8\n"


class Recorded:
    """Answers as the real one did; it reads the files that it is given."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.files = files
        self.open: set[int] = set()

    def ask(self, command: str, arguments: Mapping[str, Any]) -> Any:
        if command in RECORDED:
            return RECORDED[command]
        if self.files is None:
            raise RefusedError(f"Command {command} has been disabled")
        if command == "guest-file-open":
            if arguments["path"] not in self.files:
                raise RefusedError(f"failed to open file '{arguments['path']}'")
            self.open.add(handle := sorted(self.files).index(arguments["path"]))
            return handle
        if command == "guest-file-read":
            content = self.files[sorted(self.files)[arguments["handle"]]]
            return {"buf-b64": base64.b64encode(content).decode(), "count": len(content), "eof": True}
        self.open.discard(arguments["handle"])
        return {}

    def close(self) -> None: ...


def test_a_queue_is_read_from_the_file_of_its_kernel() -> None:
    files = {"/proc/stat": STAT, "/proc/vmstat": b"nr_free_pages 5\npswpin 70\n"}
    asking = Recorded(files)
    view = AgentView(asking).view()
    assert (view.running, view.vcpus, view.swapped_in_pages) == (8, 2, 70)
    assert isinstance(view.pressure_us, Absent)
    assert asking.open == set()


def test_an_agent_that_reads_no_files_tells_the_load() -> None:
    view = AgentView(Recorded()).view()
    # Whoever asks is not among those of a load.
    assert view.running == pytest.approx(17.714 + 1, abs=1e-3)
    assert view.vcpus == 2
    # user, nice, system, idle ...; the agent tells ms, a tick is 10 of them.
    assert view.ticks[0][:4] == (3243974, 391864, 713207, 3309959)
    assert view.ticks[0][7] == 5509


def test_refusals_and_noise_are_no_answers() -> None:
    assert returned(b'{"return": 5}') == 5
    with pytest.raises(RefusedError, match="has been disabled"):
        returned(b'{"error": {"class": "CommandNotFound", "desc": "The command has been disabled"}}')
    for line in (b"", b"[]", b"\xff\xfe", b"{}"):
        with pytest.raises(RefusedError):
            returned(line)


PORT = "-chardev socket,id=ga,{where},server=on,wait=off -device "
AGENT = "virtserialport,chardev=ga,name=org.qemu.guest_agent.0"
AS_JSON = """'{"driver":"virtserialport","chardev":"ga","name":"org.qemu.guest_agent.0"}'"""
"""As libvirt writes devices; it opens the socket itself."""


@pytest.mark.parametrize(
    ("options", "agent", "domain"),
    [
        (PORT.format(where="path=/run/100.qga") + AGENT, Path("/run/100.qga"), None),
        (PORT.format(where="fd=33") + AS_JSON, None, "web"),
        (PORT.format(where="path=/run/spice") + "virtserialport,chardev=ga,name=com.redhat.spice.0", None, None),
        ("-device '{broken'", None, None),
    ],
)  # fmt: skip
def test_where_a_guest_agent_is_reached_stands_on_the_command_line(
    options: str, agent: Path | None, domain: str | None
) -> None:
    guest = read_guest(7, 0, shlex.split(f"qemu-system-x86_64 -name guest=web {options}"))
    assert guest is not None
    assert (guest.agent, guest.domain) == (agent, domain)
