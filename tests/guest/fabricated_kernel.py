"""Two tiny kernels that QEMU enters like a real one (PVH, 32-bit protected mode): one hangs, one panics and reboots."""

import struct
from pathlib import Path

_LOAD_ADDRESS = 0x100000
_BANNER = b"Linux version 0.0.0-fabricated (nobody@nowhere) #1\0"
_HANG = b"\xfa\xf4\xeb\xfd"
"""cli; again: hlt; jmp again."""


def write_hanging_kernel(path: Path, last_words: str) -> Path:
    """Write a kernel that says something on its first serial line and then does nothing for ever."""
    return _write(path, _say(last_words) + _HANG)


def write_panicking_kernel(path: Path) -> Path:
    """Write a kernel that says what a panic says and then resets the machine, as ``panic=-1`` does."""
    reset = b"\xb0\xfe\xe6\x64"  # mov al, 0xfe; out 0x64, al: the keyboard controller pulls the reset line
    return _write(path, _say("[    0.1] Kernel panic - not syncing: fabricated") + reset + _HANG)


def _say(text: str) -> bytes:
    # mov dx, 0x3f8; then for each character: mov al, CHARACTER; out dx, al
    return b"\x66\xba\xf8\x03" + b"".join(bytes([0xB0, byte, 0xEE]) for byte in f"{text}\r\n".encode())


def _write(path: Path, code: bytes) -> Path:
    content = code + b"\0" * 8 + _BANNER
    note = struct.pack("<III4sI", 4, 4, 18, b"Xen\0", _LOAD_ADDRESS)
    headers = 64 + 2 * 56
    note_offset = headers
    load_offset = 0x1000
    elf = b"\x7fELF\x02\x01\x01" + bytes(9)
    elf += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, _LOAD_ADDRESS, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    size = len(content)
    elf += struct.pack("<IIQQQQQQ", 1, 5, load_offset, _LOAD_ADDRESS, _LOAD_ADDRESS, size, size, 0x1000)
    elf += struct.pack("<IIQQQQQQ", 4, 4, note_offset, 0, 0, len(note), len(note), 4)
    elf += note
    path.write_bytes(elf.ljust(load_offset, b"\0") + content)
    return path
