"""Checks of the records of members, register and switch: never more than one active member."""

import csv
import json
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guest_voice import GuestVoice
from two_hosts import HOSTS, VM, TwoHosts

from stealtime.hosts.laboratory import ARBITER

_POLL_S = 0.02
"""A register in a folder keeps its last 16 records; it takes several seconds until that many are written."""

# Prints each state that a key of etcd ever had, one a line, with the revision that it came with.
_HISTORY = """
import base64, json, sys, urllib.request
def seen(revision):
    asked = {"key": base64.b64encode(sys.argv[2].encode()).decode(), "revision": str(revision)}
    request = urllib.request.Request(sys.argv[1] + "/v3/kv/range", json.dumps(asked).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
newest, told = int(seen(0)["header"]["revision"]), 0
for revision in range(1, newest + 1):
    for pair in seen(revision).get("kvs", []):
        if int(pair["mod_revision"]) > told:
            told = int(pair["mod_revision"])
            print(told, base64.b64decode(pair["value"]).decode())
"""


@dataclass
class Witness:
    """Collects while a campaign runs, since members and the register keep only the last of what they write."""

    hosts: TwoHosts
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What the register held, by the number of its file, or etcd's revision."""
    releases: dict[tuple[int, str, int], int] = field(default_factory=dict)
    """When the output of an epoch left, by term, host and epoch."""
    _is_over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Witness":
        self._voice = GuestVoice(self.hosts)
        self._voice.__enter__()
        self._thread = threading.Thread(target=self._watch_register)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._voice.__exit__()

    @property
    def voice(self) -> GuestVoice:
        """What is heard of the guest at the switch."""
        return self._voice

    def note_releases(self) -> None:
        """Take up what was released so far: an active member begins its file anew."""
        for name in HOSTS:
            path = self.hosts.member(name).path / "epochs.csv"
            if not path.exists():
                continue
            with path.open() as file:
                for row in csv.DictReader(file):
                    # The last line of a member that was killed may be cut off.
                    if None in row.values():
                        continue
                    cut_ns = int(row["begin_ns"]) + int(row["stop_ns"]) + int(row["cut_ns"])
                    key = (int(row["term"]), name, int(row["epoch"]))
                    self.releases[key] = cut_ns + int(row["hold_ns"])

    def events(self) -> list[dict[str, Any]]:
        """Give what all members wrote, in the order in which it happened."""
        events = [event for name in HOSTS for event in self.hosts.events(name)]
        return sorted(events, key=lambda event: int(event["monotonic_ns"]))

    def assert_all(self) -> None:
        """Assert everything that holds whatever was done to the members."""
        assert self.assert_one_holder() > 0
        assert self.assert_no_late_release() > 0
        self.assert_lives_end_before_the_next()
        self.assert_one_voice()

    def assert_one_holder(self) -> int:
        """Assert that no term had two holders, and that nobody was active without holding it; give how many were."""
        if self.hosts.etcd is not None:
            self.records |= self._history_of_etcd(self.hosts.etcd.url)
        holders: dict[int, set[str]] = {}
        for record in self.records.values():
            if record["holder"] is not None:
                holders.setdefault(int(record["term"]), set()).add(str(record["holder"]))
        assert all(len(names) == 1 for names in holders.values()), holders
        active = [event for event in self.events() if event["event"] == "active"]
        terms = [int(event["term"]) for event in active]
        assert terms == sorted(set(terms)), f"terms do not rise from one active member to the next: {active}"
        for event in active:
            holder = next(iter(holders[int(event["term"])]))
            assert event["host"] == holder.partition("@")[0], f"{event}, but {holder} held that term"
        return len(active)

    def assert_no_late_release(self) -> int:
        """Assert that nobody released once a later member was active; give how many releases were looked at."""
        self.note_releases()
        active = [event for event in self.events() if event["event"] == "active"]
        for (term, host, epoch), released_ns in self.releases.items():
            for event in active:
                is_successor = int(event["term"]) > term and event["host"] != host
                assert not (is_successor and released_ns > int(event["monotonic_ns"])), (
                    f"{host} released epoch {epoch} of term {term} at {released_ns}, after {event}"
                )
        return len(self.releases)

    def assert_lives_end_before_the_next(self) -> None:
        """Assert that a member whose end is known ended, or was killed, and never acted after it was fenced."""
        fenced: dict[int, int] = {}
        for event in self.events():
            pid = int(event["pid"])
            assert pid not in fenced or event["event"] != "active", f"{event} after it was fenced"
            if event["event"] == "fenced":
                fenced[pid] = int(event["monotonic_ns"])

    def assert_one_voice(self) -> None:
        """Assert that hosts spoke for the guest one after the other, each from when it was active until the next was.

        A member that is stopped between asking its lease and writing a frame writes that frame when it goes on
        (docs/protect.md); it was never seen.
        """
        spoke = [speech.host for speech in self.voice.heard()]
        active = [str(event["host"]) for event in self.events() if event["event"] == "active"]
        assert spoke == active, f"heard: {self.voice.heard()}; active: {active}"

    def assert_leases_ended_before_the_next(self) -> int:
        """Assert that a member that heard nothing had no lease any more when the next one was active; give how many.

        Not so after a connection was closed: then the next one need not wait, since it acknowledges nothing.
        """
        looked_at = 0
        terms: dict[int, int] = {}
        events = self.events()
        deadline_ns = self.hosts.vm.timing.active_deadline_ns
        for event in events:
            pid = int(event["pid"])
            if "term" in event:
                terms[pid] = int(event["term"])
            if event["event"] != "state" or event["state"] != "Reclaiming" or event["echo_age_ns"] is None:
                continue
            noticed_ns = int(event["monotonic_ns"])
            until_ns = min(noticed_ns, noticed_ns - int(event["echo_age_ns"]) + deadline_ns)
            for later in events:
                if later["event"] == "active" and later["pid"] != pid and int(later["term"]) > terms[pid]:
                    assert until_ns <= int(later["monotonic_ns"]), f"{event}: a lease until {until_ns}, after {later}"
                    looked_at += 1
        return looked_at

    def _history_of_etcd(self, url: str) -> dict[int, dict[str, Any]]:
        argv = [sys.executable, "-c", _HISTORY, url, f"/stealtime/protect/{VM}"]
        asking = self.hosts.laboratory.start(ARBITER, argv, stdout=subprocess.PIPE)
        output, _ = asking.communicate(timeout=120)
        assert asking.returncode == 0
        lines = (line.partition(" ") for line in output.decode().splitlines())
        return {int(revision): json.loads(record) for revision, _, record in lines}

    def _watch_register(self) -> None:
        folder: Path = self.hosts.state.register
        while not self._is_over.wait(_POLL_S):
            for path in folder.glob(f"{VM}.*.json"):
                number = int(path.name.split(".")[1])
                if number not in self.records:
                    try:
                        self.records[number] = json.loads(path.read_text())
                    except FileNotFoundError:
                        continue
