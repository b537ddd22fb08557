"""Gaps of exact length in a path: the kernel drops every frame between two moments.

A BPF program of a dozen instructions at the ingress of both ends of a link (``tc``, clsact) compares
``bpf_ktime_get_ns``, which is CLOCK_MONOTONIC, with two moments in a map that this process shares with it. So a gap
begins and ends to the nanosecond at times that are chosen ahead, and nobody stands in the path who could be late. At
the ingress a frame is lost as on a cut wire: at the egress the sender's own TCP would hear of it.

Needs root and Linux 5.5 (BPF_F_MMAPABLE) with NET_CLS_BPF.
"""

import ctypes
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from stealtime.hosts.network import make_filterable, run

_LIBC = ctypes.CDLL(None, use_errno=True)

# Of include/uapi/linux/bpf.h and, of x86-64, asm/unistd_64.h.
_SYS_BPF = 321
_MAP_CREATE, _PROG_LOAD, _OBJ_PIN = 0, 5, 6
_MAP_TYPE_ARRAY, _PROG_TYPE_SCHED_CLS = 2, 3
_MMAPABLE = 1 << 10
_KTIME_GET_NS = 5
_MAP_VALUE = 2
_SHOT, _OK = 2, 0

_VALUE = struct.Struct("=3Q")
"""The only value of the map: when the gap begins, when it ends, and how many frames were ever dropped."""


def _instruction(opcode: int, target: int = 0, source: int = 0, offset: int = 0, immediate: int = 0) -> bytes:
    """Encode one instruction (RFC 9669, section 3)."""
    return struct.pack("=BBhi", opcode, source << 4 | target, offset, immediate)


def _program(map_descriptor: int) -> bytes:
    return b"".join(
        (
            _instruction(0x18, 6, _MAP_VALUE, 0, map_descriptor),  # r6 = the address of the value
            _instruction(0),  # the upper half of the same
            _instruction(0x85, immediate=_KTIME_GET_NS),  # r0 = now
            _instruction(0x79, 1, 6, 0),  # r1 = begin
            _instruction(0xAD, 0, 1, 6),  # if now < begin: pass
            _instruction(0x79, 1, 6, 8),  # r1 = end
            _instruction(0x3D, 0, 1, 4),  # if now >= end: pass
            _instruction(0xB7, 1, immediate=1),
            _instruction(0xDB, 6, 1, 16),  # atomically: dropped += 1
            _instruction(0xB7, 0, immediate=_SHOT),
            _instruction(0x95),
            _instruction(0xB7, 0, immediate=_OK),  # pass
            _instruction(0x95),
        )
    )


def _bpf(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = int(_LIBC.syscall(_SYS_BPF, command, buffer, len(attributes)))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"bpf command {command}: {os.strerror(number)}")
    return result


@dataclass(frozen=True)
class Gap:
    """A time without frames, by CLOCK_MONOTONIC: its first nanosecond, and the first after it."""

    start_ns: int
    end_ns: int


class ExactGaps:
    """One gap at a time, on as many links as it is attached to."""

    def __init__(self) -> None:
        self._map = _bpf(_MAP_CREATE, struct.pack("=5I", _MAP_TYPE_ARRAY, 4, _VALUE.size, 1, _MMAPABLE))
        self._value = mmap.mmap(self._map, mmap.PAGESIZE)
        code, licence = ctypes.create_string_buffer(_program(self._map)), ctypes.create_string_buffer(b"Apache-2.0")
        where = (ctypes.addressof(code), ctypes.addressof(licence))
        self._program = _bpf(_PROG_LOAD, struct.pack("=IIQQ", _PROG_TYPE_SCHED_CLS, len(code) // 8, *where))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Where it is attached it stays, with the namespace.
        self._value.close()
        os.close(self._program)
        os.close(self._map)

    def attach(self, ports: Iterable[tuple[str, str]]) -> None:
        """Watch over what comes into devices, each given by its namespace and name."""
        # tc takes a program by a path only, in a file system of its own kind; it is needed until it has looked.
        with tempfile.TemporaryDirectory(prefix="stealtime-bpf-") as folder:
            run("mount", "-t", "bpf", "bpf", folder)
            try:
                path = Path(folder) / "gap"
                name = ctypes.create_string_buffer(str(path).encode())
                _bpf(_OBJ_PIN, struct.pack("=QI", ctypes.addressof(name), self._program))
                for namespace, device in ports:
                    make_filterable(namespace, device)
                    words = f"filter add dev {device} ingress bpf da pinned {path}".split()
                    run("tc", "-n", namespace, *words)
            finally:
                run("umount", folder)

    def set(self, start_ns: int, length_ns: int) -> Gap | None:
        """Have a gap then; none is given if this process was too late to have it whole.

        The gap before it must be over: its end is only replaced after the new beginning, which lies ahead.
        """
        struct.pack_into("=Q", self._value, 0, start_ns)
        struct.pack_into("=Q", self._value, 8, start_ns + length_ns)
        return Gap(start_ns, start_ns + length_ns) if time.monotonic_ns() < start_ns else None

    @property
    def dropped(self) -> int:
        """How many frames were ever dropped."""
        _, _, count = _VALUE.unpack_from(self._value)
        return int(count)
