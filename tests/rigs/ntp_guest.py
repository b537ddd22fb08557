"""A guest whose clock chrony keeps, and the time server that it asks."""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from fetched_programs import unpack_fetched

from stealtime.hosts.laboratory import CLIENT, Laboratory
from stealtime.lab.image.debian_programs import (
    INTERPRETER,
    LIBRARIES,
    command_in,
    copy_into,
    libraries_of,
    resolve_packages,
    unpacked_file,
)
from stealtime.lab.image.initramfs import pack_initramfs
from stealtime.lab.image.kernel import find_kernel
from stealtime.lab.image.modules import ModuleWish
from stealtime.lab.platforms.agent_binary import find_agent

_CHRONYD = "usr/sbin/chronyd"
_BUSYBOX = "bin/busybox"
_WHAT = "the guest with chrony"
_MODULES = (ModuleWish("virtio_pci"), ModuleWish("virtio_net"), ModuleWish("virtio_rng", required=False))

_INIT = """#!/bin/busybox sh
b=/bin/busybox
for folder in proc sys dev run; do $b mkdir -p /$folder; done
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
$b mount -t tmpfs tmpfs /run
exec </dev/console >/dev/console 2>&1
while read -r module; do $b insmod "$module"; done </etc/stealtime/modules
for word in $($b cat /proc/cmdline); do
    case $word in stealtime.address=*) address=${word#*=} ;; esac
done
if [ -n "$address" ]; then
    $b ip link set lo up
    $b ip address add "$address" dev eth0
    $b ip link set eth0 up
fi
"""
_CHRONYD_STARTS = "/usr/sbin/chronyd -n -u root -f /etc/chrony.conf &\n"
_END = "$b poweroff -f\n"

COUNTS = """
# Not in place of this shell: as process 1 the agent would set the machine up itself.
/bin/stealtime-agent counter --tcp 7000 --udp 7000 --memory 16MiB --dirty 50/10ms
"""
"""What a guest does, and ends after: here it never does."""

_SERVER = """local stratum 8
allow
cmdport 0
bindcmdaddress /
pidfile {folder}/chronyd.pid
"""


@dataclass(frozen=True)
class Chrony:
    """Debian's chrony and what it loads, in a folder."""

    tree: Path

    @classmethod
    def unpack(cls, tree: Path) -> "Chrony":
        """Fetch it into a folder that is not there yet.

        Raises:
            StealtimeError: Its packages cannot be had.
        """
        packages = resolve_packages(("chrony", "busybox-static"), _WHAT)
        with tempfile.TemporaryDirectory(dir=tree.parent) as folder:
            unpacked = Path(folder) / "unpacked"
            unpack_fetched(packages, unpacked, _WHAT)
            for name in (_CHRONYD, _BUSYBOX, INTERPRETER):
                copy_into(tree, name, unpacked_file(unpacked, name, _WHAT))
            for name, source in libraries_of([unpacked / _CHRONYD], unpacked, _WHAT).items():
                copy_into(tree, f"{LIBRARIES}/{name}", source)
        return cls(tree)

    def initramfs(
        self, configuration: str, does: str, modules: Sequence[ModuleWish] = _MODULES, before: str = ""
    ) -> Path:
        """Pack a guest whose clock chrony keeps.

        Args:
            configuration: What chronyd is told.
            does: A script, after the end of which the guest is switched off.
            modules: What it loads.
            before: A script that ends before chronyd is started.
        """
        own = self.tree.parent / "own"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()
        (own / "init").write_text(_INIT + before + _CHRONYD_STARTS + does + _END)
        (own / "chrony.conf").write_text(configuration)
        (own / "passwd").write_text("root:x:0:0::/:/bin/false\n")
        programs = {str(path.relative_to(self.tree)): path for path in self.tree.rglob("*") if path.is_file()}
        programs |= {"etc/chrony.conf": own / "chrony.conf", "etc/passwd": own / "passwd"}
        programs["bin/stealtime-agent"] = find_agent()
        return pack_initramfs(own / "init", modules, find_kernel("cloud"), programs=programs).path

    def serve(self, laboratory: Laboratory) -> psutil.Popen:
        """Tell the time of this host to the guests of a laboratory, from where the clients are; touches no clock."""
        configuration = laboratory.folder / "chronyd.conf"
        configuration.write_text(_SERVER.format(folder=laboratory.folder))
        argv = [*command_in(self.tree, _CHRONYD), "-x", "-n", "-u", "root", "-f", str(configuration)]
        with (laboratory.folder / "chronyd.log").open("wb") as log:
            return laboratory.start(CLIENT, argv, stdout=log, stderr=subprocess.STDOUT)


def client_configuration(source: str, more: str) -> str:
    """Give what the guest's chronyd is told, of a source as its manual writes it."""
    return f"{source}\n{more}\ncmdport 0\nbindcmdaddress /\npidfile /run/chronyd.pid\n"
