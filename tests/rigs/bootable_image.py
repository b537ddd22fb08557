"""The guest with the database as an operator has it: a partition table and a boot loader of its own on its disk."""

import struct
import subprocess
from contextlib import ExitStack
from pathlib import Path

from stealtime.hosts.database.image import DatabaseImage

_FIRST_BYTE = 1 << 20
_GRUB = """serial --unit=0 --speed=115200
terminal_input serial
terminal_output serial
set timeout=0
menuentry database {{
    search --no-floppy --label root --set=root
    linux /boot/{kernel} root=LABEL=root rw console=ttyS0 quiet tsc=reliable no_timer_check stealtime.address={address}
    initrd /boot/{initrd}
}}
"""


def make_bootable(image: DatabaseImage, disk: Path, address: str) -> None:
    """Write a disk that a BIOS boots.

    Args:
        image: What it is made of.
        disk: The raw image to be written.
        address: What the guest gives itself, with its prefix.
    """
    length = image.disk.stat().st_size
    with disk.open("wb") as file:
        file.truncate(_FIRST_BYTE + length)
        # One partition (Linux, bootable), by its first sector and how many there are: all that a PC's table needs.
        file.seek(446)
        file.write(struct.pack("<B3xB3xII48xH", 0x80, 0x83, _FIRST_BYTE // 512, length // 512, 0xAA55))
    parts = ["if=" + str(image.disk), "of=" + str(disk), "bs=1M", "conv=sparse,notrunc"]
    _run("dd", *parts, f"seek={_FIRST_BYTE >> 20}", "status=none")
    folder = disk.with_name("mounted")
    folder.mkdir()
    with ExitStack() as stack:
        loop = _run("losetup", "--find", "--show", "--partscan", disk).strip()
        stack.callback(_run, "losetup", "--detach", loop)
        part = _run("losetup", "--find", "--show", "--offset", str(_FIRST_BYTE), disk).strip()
        stack.callback(_run, "losetup", "--detach", part)
        _run("mount", part, folder)
        stack.callback(_run, "umount", folder)
        for name in ("dev", "proc", "sys"):
            _run("mount", "--bind", f"/{name}", folder / name)
            stack.callback(_run, "umount", folder / name)
        (kernel,), (initrd,) = folder.glob("boot/vmlinuz-*"), folder.glob("boot/initrd.img-*")
        options = ["--target=i386-pc", "--no-floppy", "--modules=biosdisk part_msdos ext2", "--boot-directory=/boot"]
        _run("chroot", folder, "grub-install", *options, loop)
        text = _GRUB.format(kernel=kernel.name, initrd=initrd.name, address=address)
        (folder / "boot/grub/grub.cfg").write_text(text)
        fstab = folder / "etc/fstab"
        fstab.write_text(fstab.read_text().replace("/dev/vda ", "LABEL=root "))


def _run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
