"""The disk of a Debian guest in which PostgreSQL runs, made of Debian's own packages and kept in the cache."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.image.cache import cache_folder, obtain_entry, read_entry
from stealtime.lab.image.tools import run_tool
from stealtime.vocabulary.errors import StealtimeError

SUITE = "bookworm"
DATABASE = "stealtime"
USER = "stealtime"
PORT = 5432

_VERSION = 2
"""Of what is made here: a change makes a new image."""
_IMAGE_BYTES = 1280 << 20
_WHAT = "the disk of the database's guest"
_HINT = "install mmdebstrap and e2fsprogs, check the network, and see that /tmp and the cache have 2 GiB of room"
_PACKAGES = (
    *("linux-image-cloud-amd64", "grub-pc-bin", "grub2-common", "systemd-sysv", "udev", "dbus", "iproute2"),
    *("e2fsprogs", "postgresql", "postgresql-contrib"),
)
_NO_DOCUMENTATION = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
_ADDRESS_UNIT = """[Unit]
Description=Address from the kernel command line
Before=network.target postgresql@.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/address
[Install]
WantedBy=multi-user.target
"""
_ADDRESS = """#!/bin/sh
for word in $(cat /proc/cmdline); do
    case $word in
    stealtime.address=*) address=${word#*=} ;;
    esac
done
for card in /sys/class/net/e*; do
    ip link set "${card##*/}" up
    ip address add "$address" dev "${card##*/}"
    break
done
"""
_TMPFS = "tmpfs /tmp tmpfs defaults 0 0\n"
_POSTGRESQL = """listen_addresses = '*'
shared_buffers = 32MB
fsync = on
synchronous_commit = on
full_page_writes = on
"""
_CUSTOMIZE = r"""
set -e
root=$1
version=$(ls "$root/etc/postgresql")
cat /dev/null >"$root/etc/machine-id"
echo database >"$root/etc/hostname"
printf '/dev/vda / ext4 errors=remount-ro 0 1\n%s' "$FSTAB" >"$root/etc/fstab"
printf '%s' "$ADDRESS" >"$root/usr/local/sbin/address"
chmod 755 "$root/usr/local/sbin/address"
printf '%s' "$ADDRESS_UNIT" >"$root/etc/systemd/system/address.service"
chroot "$root" systemctl enable address.service
chroot "$root" systemctl mask systemd-timesyncd.service apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer \
    fstrim.timer dpkg-db-backup.timer systemd-networkd-wait-online.service
printf '%s' "$POSTGRESQL" >"$root/etc/postgresql/$version/main/conf.d/stealtime.conf"
echo "host all all all trust" >>"$root/etc/postgresql/$version/main/pg_hba.conf"
chroot "$root" pg_ctlcluster "$version" main start
chroot "$root" runuser -u postgres -- psql --quiet \
    -c "CREATE ROLE $USER SUPERUSER LOGIN" -c "CREATE DATABASE $DATABASE OWNER $USER"
chroot "$root" runuser -u postgres -- psql --quiet --dbname "$DATABASE" -c "CREATE EXTENSION amcheck"
chroot "$root" pg_ctlcluster "$version" main stop
"""


@dataclass(frozen=True)
class DatabaseImage:
    """What the guest boots from."""

    kernel: Path
    initramfs: Path
    disk: Path
    """The raw image of its file system, which nobody may write: a guest gets a copy."""


def _folder() -> Path:
    return cache_folder() / f"database-{SUITE}-{_VERSION}"


def is_made() -> bool:
    """Tell whether the image is in the cache."""
    return read_entry(_folder()) is not None


def database_image() -> DatabaseImage:
    """Give the image; it is made where it is missing, which takes a minute or two.

    Raises:
        StealtimeError: It cannot be made: a program is missing, or Debian's mirror cannot be reached.
    """
    folder = _folder()
    obtain_entry(folder, _build)
    return DatabaseImage(folder / "vmlinuz", folder / "initrd.img", folder / "disk.raw")


def _build(folder: Path) -> tuple[list[str], Mapping[str, str]]:
    for program in ("mmdebstrap", "/sbin/mke2fs"):
        if shutil.which(program) is None:
            raise StealtimeError(f"{_WHAT} cannot be made: there is no {program}", hint=_HINT)
    # A home may forbid programs and devices.
    with tempfile.TemporaryDirectory(prefix="stealtime-database-") as name:
        tree, hook = Path(name) / "tree", Path(name) / "customize"
        hook.write_text(f"#!/bin/sh\n{_CUSTOMIZE}")
        hook.chmod(0o755)
        variables = {
            "ADDRESS": _ADDRESS,
            "ADDRESS_UNIT": _ADDRESS_UNIT,
            "FSTAB": _TMPFS,
            "POSTGRESQL": _POSTGRESQL,
            "USER": USER,
            "DATABASE": DATABASE,
        }
        exclusions = [f"--dpkgopt=path-exclude={path}" for path in _NO_DOCUMENTATION]
        command = [
            *("env", *(f"{key}={value}" for key, value in variables.items())),
            *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(_PACKAGES)}", *exclusions),
            *(f'--customize-hook={hook} "$1"', SUITE, str(tree)),
        ]
        try:
            run_tool(command, f"{_WHAT} cannot be made", _HINT)
            shutil.copy(next(tree.glob("boot/vmlinuz-*")), folder / "vmlinuz")
            shutil.copy(next(tree.glob("boot/initrd.img-*")), folder / "initrd.img")
            disk = folder / "disk.raw"
            with disk.open("wb") as file:
                file.truncate(_IMAGE_BYTES)
            run_tool(
                ["/sbin/mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", str(tree), str(disk)],
                f"{_WHAT} cannot be made",
                _HINT,
            )
        finally:
            # What it holds belongs to other users.
            subprocess.run(["rm", "-rf", "--one-file-system", str(tree)], check=False)
    return ["vmlinuz", "initrd.img", "disk.raw"], {"suite": SUITE}
