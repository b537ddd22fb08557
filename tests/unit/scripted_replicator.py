#!/usr/bin/env python3
"""A stand-in for `stealtime-replicator`: it boots nothing, but lives, listens and ends as the real one does.

Its machine is protected after a few answers. `fail` in the machine's kernel arguments makes it end at once.
"""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

ANSWERS_UNTIL_PROTECTED = 3
STOP_ANSWER = "stop-answer"
"""What it says to `stop` instead, if a test has put it into its folder; nothing if that is empty."""


def listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    return listener


def be_host(config: dict[str, Any]) -> None:
    listener = listen(Path(config["listen"].removeprefix("unix:")))
    while True:
        listener.accept()[0].close()


def be_active(spec: dict[str, Any]) -> None:
    if "fail" in spec["machine"]["kernel_arguments"]:
        sys.exit("error: the register says that it runs elsewhere")
    folder = Path(spec["folder"])
    (folder / "ram").write_bytes(b"0" * 4096)
    # The header and one epoch, as epoch_log.rs writes them.
    (folder / "epochs.csv").write_text("term,epoch,pause_ns\n1,1,7000000\n")
    listener = listen(folder / "control.sock")
    answers = 0
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as reader:
            for line in reader:
                answers += 1
                command = json.loads(line)["command"]
                answer = answer_to(command, spec, answers)
                if command == "stop" and (instead := folder / STOP_ANSWER).exists():
                    connection.sendall(instead.read_bytes())
                    return
                connection.sendall(json.dumps(answer).encode() + b"\n")
                if command == "stop":
                    return


def answer_to(command: str, spec: dict[str, Any], answers: int) -> dict[str, Any]:
    if command == "stop":
        return {"ended": "stopped as asked"}
    if command != "status":
        return {}
    is_off = spec["mode"] == "off"
    protected = answers > ANSWERS_UNTIL_PROTECTED and not is_off
    standby = spec["standby_hosts"][0] if spec["standby_hosts"] else None
    return {
        "vm": spec["machine"]["name"],
        "host": spec["host"],
        "role": "active" if protected else "solo",
        "protected": protected,
        "mode": spec["mode"],
        "epoch": answers,
        "standby": standby if protected else None,
        "full_copy": None if protected else {"done_bytes": answers, "total_bytes": ANSWERS_UNTIL_PROTECTED},
        "pid": os.getpid(),
    }


if __name__ == "__main__":
    kind, _, file = sys.argv[1:4]
    told = json.loads(Path(file).read_text())
    (be_host if kind == "host" else be_active)(told)
