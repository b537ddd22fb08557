"""Sets the wall clock of single processes while they run, as a step of NTP or an operator does it to a whole host.

The kernel has one CLOCK_REALTIME for all namespaces. But programs read it in user space, by functions that the kernel
maps into each process (vDSO, vdso(7)): glibc, Go (etcd) and Rust without libc all call those. Their first instructions
are replaced by a jump to code that asks the kernel and adds an offset to CLOCK_REALTIME only, in the unused end of the
vDSO's last page. A process has its own copy of a page that is written to, and loses it by execve(2).

Chaos Mesh (TimeChaos) sets clocks in the same way. Only for x86-64.
"""

import platform
import struct
from collections.abc import Iterable
from pathlib import Path

IS_POSSIBLE = platform.machine() == "x86_64"

_CLOCK_GETTIME, _GETTIMEOFDAY, _TIME = "__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time"
_DT_HASH, _DT_STRTAB, _DT_SYMTAB = 4, 5, 6
_PT_DYNAMIC = 2
_ROOM_BYTES = 64


def set_ahead(pids: Iterable[int], ahead_s: int) -> None:
    """Let processes see a wall clock that is so many seconds ahead of the real one, or behind it.

    Args:
        pids: Which processes. One that has ended meanwhile is left out.
        ahead_s: How far; 0 is the real one again.
    """
    for pid in pids:
        try:
            _set_ahead(pid, ahead_s)
        except (FileNotFoundError, ProcessLookupError):
            continue


def _set_ahead(pid: int, ahead_s: int) -> None:
    begin, end = _find_vdso(pid)
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(begin)
        image = memory.read(end - begin)
        replacements = {
            _CLOCK_GETTIME: _clock_gettime(ahead_s),
            _GETTIMEOFDAY: _gettimeofday(ahead_s),
            _TIME: _time(ahead_s),
        }
        functions = _functions(image)
        place = end - begin
        for name, code in replacements.items():
            place -= _ROOM_BYTES
            held = image[place : place + len(code)]
            is_first = held == bytes(len(code))
            assert is_first or held[:7] == code[:7], f"the vDSO of {pid} has no room at {place:#x}"
            memory.seek(begin + place)
            memory.write(code)
            # Eight bytes on an address divisible by eight: a thread that comes by sees the old ones or the new ones.
            entry = functions[name]
            assert entry % 8 == 0, f"{name} lies at {entry:#x}"
            jump = b"\xe9" + struct.pack("<i", place - entry - 5)
            memory.seek(begin + entry)
            memory.write(jump + image[entry + 5 : entry + 8])


def _find_vdso(pid: int) -> tuple[int, int]:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith("[vdso]"):
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            return begin, end
    raise ProcessLookupError(f"the process {pid} has no vDSO")


def _functions(image: bytes) -> dict[str, int]:
    """Give where each function of an ELF image begins."""
    (headers_at,) = struct.unpack_from("<Q", image, 32)
    header_bytes, headers = struct.unpack_from("<HH", image, 54)
    dynamic: dict[int, int] = {}
    for number in range(headers):
        kind, _, at, _, _, length = struct.unpack_from("<IIQQQQ", image, headers_at + number * header_bytes)
        if kind == _PT_DYNAMIC:
            dynamic = dict(struct.iter_unpack("<QQ", image[at : at + length]))
    names, symbols = dynamic[_DT_STRTAB], dynamic[_DT_SYMTAB]
    (count,) = struct.unpack_from("<I", image, dynamic[_DT_HASH] + 4)
    found = {}
    for number in range(count):
        name_at, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, symbols + number * 24)
        name = image[names + name_at : image.index(b"\0", names + name_at)].decode()
        found[name] = value
    return found


def _clock_gettime(ahead_s: int) -> bytes:
    return (
        b"\xb8\xe4\x00\x00\x00"  # mov eax, 228 (clock_gettime)
        b"\x0f\x05"  # syscall
        b"\x85\xc0"  # test eax, eax
        b"\x75\x10"  # jne to the end
        b"\x85\xff"  # test edi, edi (CLOCK_REALTIME)
        b"\x74\x05"  # je to the addition
        b"\x83\xff\x05"  # cmp edi, 5 (CLOCK_REALTIME_COARSE)
        b"\x75\x07"  # jne to the end
        b"\x48\x81\x06" + struct.pack("<i", ahead_s) + b"\xc3"  # add qword [rsi], ahead_s; ret
    )


def _gettimeofday(ahead_s: int) -> bytes:
    return (
        b"\xb8\x60\x00\x00\x00"  # mov eax, 96 (gettimeofday)
        b"\x0f\x05"  # syscall
        b"\x48\x85\xff"  # test rdi, rdi
        b"\x74\x07"  # je to the end
        b"\x48\x81\x07" + struct.pack("<i", ahead_s) + b"\xc3"  # add qword [rdi], ahead_s; ret
    )


def _time(ahead_s: int) -> bytes:
    return (
        b"\x57"  # push rdi
        b"\x31\xff"  # xor edi, edi
        b"\xb8\xc9\x00\x00\x00"  # mov eax, 201 (time)
        b"\x0f\x05"  # syscall
        b"\x5f"  # pop rdi
        b"\x48\x05" + struct.pack("<i", ahead_s) + b"\x48\x85\xff"  # add rax, ahead_s; test rdi, rdi
        b"\x74\x03"  # je to the end
        b"\x48\x89\x07"  # mov [rdi], rax
        b"\xc3"  # ret
    )
