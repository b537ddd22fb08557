"""What many protected machines ask of an etcd, and what a day of it leaves there.

A hundred pairs of members without guests, with the default deadlines, are protected on a real etcd with its default
quota. What they read and write once all are protected is counted. Then as many writes as they would make in 24 h are
really made, and the size of etcd's database is read before and after: etcd keeps each as a revision until somebody
compacts. CPU is that of the process with all members, heartbeats and echoes included, and that of etcd.
"""

import json
import subprocess
import sys
from pathlib import Path

from measurement.hosts import cpu_s
from measurement.showing import Figure, arguments, show
from real_etcd import Etcd

from stealtime.hosts.laboratory import ARBITER, Laboratory

_ROOT = Path(__file__).parents[2]
_DAY_S = 24 * 3600.0
_SIZE_AT_MOST_MIB = 100.0
_RECORD = {"term": 2, "holder": "a@921ad25ccb082b79", "standby": "b@e52121ff9dde1e15", "renewals": 0}

# Runs beside etcd: URL, machines, writes. Prints the size of the database before and after, in bytes.
_REPLAY = """
import base64, http.client, json, sys, urllib.parse
address, machines, writes, record = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
connection = http.client.HTTPConnection(urllib.parse.urlsplit(address).netloc, timeout=60)
def post(path, body):
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    return json.loads(connection.getresponse().read())
def encoded(text):
    return base64.b64encode(text.encode()).decode()
def size():
    return int(post("/v3/maintenance/status", {})["dbSize"])
before = size()
for number in range(writes):
    record["renewals"] = number
    text = json.dumps(record, separators=(",", ":"))
    put = {"key": encoded(f"/stealtime/protect/day{number % machines}"), "value": encoded(text)}
    answer = post("/v3/kv/put", put)
    assert "header" in answer, answer
print(json.dumps([before, size()]))
"""


def _many_members() -> Path:
    """Build the program, where it is not built yet."""
    command = ["cargo", "build", "--release", "--quiet", "-p", "stealtime-succession", "--example", "many_members"]
    subprocess.run(command, cwd=_ROOT, check=True)
    metadata = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=_ROOT, check=True, stdout=subprocess.PIPE
    )
    return Path(json.loads(metadata.stdout)["target_directory"]) / "release/examples/many_members"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pairs", type=int, default=100, help="protected machines; default 100")
    parser.add_argument("--seconds", type=float, help="counted for so long; default 120, with --full 600")
    options = parser.parse_args()
    seconds = options.seconds or (600.0 if options.full else 120.0)
    program = _many_members()
    with Laboratory() as laboratory:
        etcd = Etcd(laboratory)
        used_before_s = cpu_s(etcd.pid)
        argv = [str(program), etcd.url, str(options.pairs), str(seconds)]
        members = laboratory.start("a", argv, stdout=subprocess.PIPE)
        output, _ = members.communicate(timeout=seconds + 300)
        used_etcd_s = cpu_s(etcd.pid) - used_before_s
        told = json.loads(output)
        writes_a_day = round(told["writes"] * _DAY_S / told["seconds"])
        replay = [sys.executable, "-c", _REPLAY, etcd.url, str(options.pairs), str(writes_a_day), json.dumps(_RECORD)]
        replaying = laboratory.start(ARBITER, replay, stdout=subprocess.PIPE)
        sizes, _ = replaying.communicate(timeout=3600)
        before, after = json.loads(sizes)
    figures = [
        Figure("protected to the end", "", [told["protected"]], at_least=options.pairs),
        Figure("calls without an answer", "", [told["failed"]], at_most=0),
        Figure("reads", "1/s", [told["reads"] / told["seconds"]]),
        Figure("writes", "1/s", [told["writes"] / told["seconds"]]),
        Figure("writes of 24 h, made", "", [writes_a_day]),
        Figure("what they added to the database", "MiB", [(after - before) / 2**20], at_most=_SIZE_AT_MOST_MIB),
        Figure("CPU of the members", "%", [100 * told["cpu_s"] / told["seconds"]]),
        Figure("CPU of etcd", "%", [100 * used_etcd_s / told["seconds"]]),
    ]
    notes = [f"{options.pairs} pairs, default deadlines, counted for {told['seconds']:.0f} s; an etcd of one member"]
    show("registers", figures, notes, as_json=options.json)


if __name__ == "__main__":
    main()
