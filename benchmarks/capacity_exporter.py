"""What `watch --prometheus` costs with 300 guests, and what its screen does: the programs themselves, from outside.

300 real processes of 6 threads, which are called as QEMU is and wake twice a second. Prometheus' part is played by a
request each 15 s. The exporter's budget is 1 % of a CPU and 64 MiB; the screen's, in a terminal of 80 x 24, 10 % and
160 MiB. Each is watched after its first minutes, once its windows are full.
"""

import argparse
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

import psutil
from capacity_collector import real

GUESTS = 300
SCRAPE_EVERY_S = 15.0
STEALTIME = [sys.executable, "-c", "from stealtime.start import main; main()"]
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Budget:
    """What a program may take."""

    cpu_percent: float
    memory_bytes: int


EXPORTER = Budget(1.0, 64 * MEBIBYTE)
SCREEN = Budget(10.0, 160 * MEBIBYTE)


@contextmanager
def exporter(port: int, folder: Path) -> Iterator[int]:
    argv = [*STEALTIME, "watch", "--prometheus", str(port), "--keep", str(folder)]
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


@contextmanager
def screen() -> Iterator[int]:
    """Run it in a terminal of 80 x 24 whose other end is read and thrown away."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    argv = [*STEALTIME, "watch", "--no-neighbours"]
    process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    threading.Thread(target=_drain, args=[ours], daemon=True).start()
    try:
        yield process.pid
    finally:
        os.write(ours, b"q")
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 1 << 16):
            pass
    except OSError:
        return


def watch(name: str, pid: int, budget: Budget, options: argparse.Namespace, port: int | None = None) -> bool:
    process = psutil.Process(pid)
    time.sleep(options.settle)
    before, began = process.cpu_times(), time.monotonic()
    series, scrapes = 0, 0
    while time.monotonic() - began < options.seconds:
        if port is not None:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                series = sum(not line.startswith(b"#") for line in answer)
            scrapes += 1
        time.sleep(SCRAPE_EVERY_S)
    elapsed_s = time.monotonic() - began
    after = process.cpu_times()
    percent = 100 * (after.user + after.system - before.user - before.system) / elapsed_s
    memory = process.memory_info().rss
    kept = percent <= budget.cpu_percent and memory <= budget.memory_bytes
    print(f"{name}: {percent:.2f} % of one CPU and {memory / MEBIBYTE:.0f} MiB over {elapsed_s:.0f} s")
    if port is not None:
        print(f"  {series} series, asked for {scrapes} times")
    limits = f"{budget.cpu_percent:g} % and {budget.memory_bytes / MEBIBYTE:.0f} MiB"
    print(f"  budget: {limits}: {'kept' if kept else 'missed'}")
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--guests", type=int, default=GUESTS)
    parser.add_argument("--settle", type=float, default=150.0, metavar="S", help="before anything is counted")
    parser.add_argument("--seconds", type=float, default=120.0, metavar="S", help="for how long it is counted")
    parser.add_argument("--only", choices=["exporter", "screen"])
    options = parser.parse_args()
    kept = True
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    with real(options.guests), tempfile.TemporaryDirectory() as name:
        if options.only != "screen":
            with exporter(port, Path(name)) as pid:
                kept &= watch("exporter", pid, EXPORTER, options, port)
        if options.only != "exporter":
            with screen() as pid:
                kept &= watch("screen", pid, SCREEN, options)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
