"""A disk of the test's own, whose transfers take as long as it says: one file of a file system in user space (FUSE).

``python slow_disk.py DELAY_S [--stall FROM_S LENGTH_S] -- COMMAND ...`` mounts it in a mount namespace of its own,
which goes with the last process in it, and runs COMMAND there with ``{}`` replaced by the path. Each transfer is held
for DELAY_S; any number are held at a time. With ``--stall`` none is answered for LENGTH_S, beginning FROM_S after the
first transfer. On a busy machine all of that is longer, so the last lines of standard error say what it was, in ns:
``stall BEGIN END``, by ``CLOCK_MONOTONIC``, and ``held MEDIAN``.

The kernel's side is `include/uapi/linux/fuse.h`, version 7.31.
"""

import argparse
import ctypes
import errno
import heapq
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SIZE_BYTES = 64 << 20
ROOT, FILE = 1, 2
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE = 1, 2, 3, 4, 14, 15, 16, 17, 18
FSYNC, FLUSH, INIT, OPENDIR, RELEASEDIR, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = 20, 25, 26, 27, 29, 34, 36, 38, 42
UNANSWERED = (FORGET, INTERRUPT, BATCH_FORGET)
ASYNC_READ, BIG_WRITES, ASYNC_DIO = 1 << 0, 1 << 5, 1 << 15
MOST_HELD = 1024
NAME = "disk"


def _attributes(node: int) -> bytes:
    is_root = node == ROOT
    mode, size = (0o040755, 0) if is_root else (0o100600, SIZE_BYTES)
    times = (0,) * 3 + (0,) * 3
    return struct.pack("<6Q10I", node, size, size // 512, *times[:3], *times[3:], mode, 1, 0, 0, 0, 4096, 0)


class SlowDisk:
    """Answers the kernel; transfers after their time."""

    def __init__(self, device: int, delay_s: float, stall_s: tuple[float, float] | None) -> None:
        self.device, self.delay_s, self.stall_s = device, delay_s, stall_s
        self.first: float | None = None
        self._held: list[tuple[float, int, float, bytes]] = []
        self.held_s: list[float] = []
        self._changed = threading.Condition()

    def serve(self) -> None:
        threading.Thread(target=self._answer_held, daemon=True).start()
        while True:
            try:
                request = os.read(self.device, 1 << 20)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                return
            _, operation, number, node = struct.unpack_from("<2I2Q", request)
            if operation not in UNANSWERED:
                self._handle(operation, number, node, request[40:])

    def stall(self) -> tuple[float, float] | None:
        """Give when it begins and ends, by ``time.monotonic()``."""
        if self.first is None or self.stall_s is None:
            return None
        begin = self.first + self.stall_s[0]
        return begin, begin + self.stall_s[1]

    def _handle(self, operation: int, number: int, node: int, body: bytes) -> None:
        if operation == READ:
            (size,) = struct.unpack_from("<I", body, 16)
            self._hold(number, b"\x55" * size)
        elif operation == WRITE:
            (size,) = struct.unpack_from("<I", body, 16)
            self._hold(number, struct.pack("<2I", size, 0))
        elif operation == INIT:
            flags = ASYNC_READ | BIG_WRITES | ASYNC_DIO
            self._answer(
                number, struct.pack("<4I2H2I2H8I", 7, 31, 0, flags, MOST_HELD, MOST_HELD, 1 << 17, 1, *(0,) * 10)
            )
        elif operation == LOOKUP:
            if node == ROOT and body.rstrip(b"\0").decode() == NAME:
                self._answer(number, struct.pack("<4Q2I", FILE, 1, 1 << 20, 1 << 20, 0, 0) + _attributes(FILE))
            else:
                self._answer(number, error=errno.ENOENT)
        elif operation in (GETATTR, SETATTR):
            self._answer(number, struct.pack("<Q2I", 1 << 20, 0, 0) + _attributes(node))
        elif operation in (OPEN, OPENDIR):
            self._answer(number, struct.pack("<Q2I", 0, 0, 0))
        elif operation in (RELEASE, RELEASEDIR, FSYNC, FLUSH, ACCESS, DESTROY):
            self._answer(number)
        else:
            self._answer(number, error=errno.ENOSYS)

    def _hold(self, number: int, answer: bytes) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first = now
        due = now + self.delay_s
        stall = self.stall()
        if stall is not None and stall[0] <= due < stall[1]:
            due = stall[1]
        with self._changed:
            heapq.heappush(self._held, (due, number, now, answer))
            self._changed.notify()

    def _answer_held(self) -> None:
        while True:
            with self._changed:
                while not self._held:
                    self._changed.wait()
                left_s = self._held[0][0] - time.monotonic()
                if left_s > 0.0005:
                    # Most of it: what is held next may be due before.
                    self._changed.wait(left_s - 0.0003)
                    continue
                due, number, came, answer = heapq.heappop(self._held)
            while time.monotonic() < due:
                pass
            self.held_s.append(time.monotonic() - came)
            self._answer(number, answer)

    def _answer(self, number: int, body: bytes = b"", error: int = 0) -> None:
        try:
            os.write(self.device, struct.pack("<IiQ", 16 + len(body), -error, number) + body)
        except OSError as refused:
            # Whoever asked has gone.
            if refused.errno != errno.ENOENT:
                raise


def _as_others() -> None:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def main() -> int:
    if "--in-namespace" not in sys.argv:
        line = ["unshare", "--mount", "--propagation", "private", sys.executable, __file__, "--in-namespace"]
        os.execvp("unshare", [*line, *sys.argv[1:]])  # noqa: S606 - nothing of it is from elsewhere
    parser = argparse.ArgumentParser()
    parser.add_argument("--in-namespace", action="store_true")
    parser.add_argument("delay_s", type=float)
    parser.add_argument("--stall", type=float, nargs=2)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.TemporaryDirectory(prefix="slow-disk-") as folder:
        # It is the disk: what runs beside it should not make it slower.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(90))
        device = os.open("/dev/fuse", os.O_RDWR)
        data = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
        if libc.mount(b"slow-disk", folder.encode(), b"fuse", 0, data):
            raise OSError(ctypes.get_errno(), "mount")
        disk = SlowDisk(device, options.delay_s, options.stall and tuple(options.stall))
        threading.Thread(target=disk.serve, daemon=True).start()
        command = [one.replace("{}", str(Path(folder) / NAME)) for one in options.command]
        code = subprocess.run(command, check=False, preexec_fn=_as_others).returncode
        stall = disk.stall()
        if stall is not None:
            sys.stderr.write(f"stall {round(stall[0] * 1e9)} {round(stall[1] * 1e9)}\n")
        if disk.held_s:
            sys.stderr.write(f"held {round(statistics.median(disk.held_s) * 1e9)}\n")
        libc.umount2(folder.encode(), 2)
    return code


if __name__ == "__main__":
    sys.exit(main())
