"""A machine in which stock KVM runs, although this one has none: QEMU's TCG emulates AMD-V with nested paging.

The first level boots a stock Debian kernel over the host's own file system, so QEMU, this tree and its environment are
there as they are here. Guests in it are the second level. Times in there mean nothing; function and counts do.

``python tests/kvm/first_level.py [--kernel KERNEL]`` gives a prompt in it (``make kvm-shell``).
"""

import argparse
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stealtime.lab.image.initramfs import pack_initramfs
from stealtime.lab.image.kernel import find_kernel
from stealtime.lab.image.modules import ModuleWish
from stealtime.lab.platforms.failure import read_tail
from stealtime.lab.platforms.process import guarded
from stealtime.lab.platforms.qemu_program import find_qemu

KERNEL = "backports"
"""Debian's next kernel: from Linux 6.7 on, QEMU's writes are told by its userfaultfd."""
EXCHANGE = Path("/exchange")
"""Where a folder of the host is in the first level."""

_INIT = Path(__file__).with_name("first_level_init.sh")
_MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay", "kvm", "kvm_amd", "msr", "cpuid"]
_MODULES += ["bridge", "veth", "tun", "sch_ingress", "cls_bpf", "act_mirred"]
_MEMORY_MIB = 4096
_CPUS = 2
_BOOT_LIMIT_S = 60.0
_BOOTS = 3
_KEPT_VARIABLES = ("XDG_CACHE_HOME", "XDG_DATA_HOME", "HOME")


class FirstLevelError(AssertionError):
    """The machine did not come up, ended, or a command in it failed; holds what was said last."""


class FirstLevel:
    """The machine, booted anew where its kernel has panicked: at once while it boots, or for the next command.

    Now and then QEMU's translator, which runs the processors as threads, trips over the kernel's patching of its own
    code (Linux 6.12: an `int3` in `sched_clock_cpu`, in `__schedule`, in `update_curr`). Whoever ran a command then has
    failed, and is run again with the ring.

    Args:
        kernel: What it boots.
        folder: For its console and its exchange with the host.
        arguments: Of its kernel and, as ``kvm_amd.npt=0``, of its modules.
    """

    def __init__(self, kernel: str, folder: Path, arguments: str = "") -> None:
        self.exchange = folder / "exchange"
        """The folder of the host that it has as ``/exchange``."""
        self._console = folder / "console.log"
        self._kernel = kernel
        self._kernel_arguments = arguments
        self._count = 0
        self.boots = 0
        """How often it was booted: more than once where its kernel has panicked."""
        self._running = ExitStack()
        _fill(self.exchange)

    def boot(self) -> None:
        """Boot it until it takes commands.

        Raises:
            FirstLevelError: It did not come up.
        """
        for attempt in range(1, _BOOTS + 1):
            try:
                self._boot()
            except FirstLevelError:
                if attempt == _BOOTS or not self._has_panicked():
                    raise
            else:
                return

    def _boot(self) -> None:
        self.boots += 1
        self._running.close()
        ours, theirs = socket.socketpair()
        self._running.enter_context(ours)
        argv = _arguments(self._kernel, self.exchange, self._kernel_arguments)
        argv += ["-chardev", f"file,id=console,path={self._console}", "-serial", "chardev:console"]
        argv += ["-chardev", f"socket,id=commands,fd={theirs.fileno()}", "-serial", "chardev:commands"]
        argv = guarded(argv, cpus=os.sched_getaffinity(0))
        with theirs:
            qemu = subprocess.Popen(argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._running.enter_context(qemu)
        self._running.callback(qemu.kill)
        self._commands, self._answers = ours, ours.makefile("r")
        self._expect("ready", _BOOT_LIMIT_S, self._console)

    def run(self, command: str | Sequence[str], *, within_s: float) -> str:
        """Run a command of the host's in there, and give what it printed.

        Raises:
            FirstLevelError: It failed, or needed longer.
        """
        line = command if isinstance(command, str) else shlex.join(command)
        assert "\n" not in line
        if self._has_panicked():
            self.boot()
        self._count += 1
        log = self.exchange / f"{self._count}.log"
        self._commands.sendall(f"{self._count} {line}\n".encode())
        self._expect(f"{self._count} 0", within_s, log)
        return log.read_text(errors="replace")

    def end(self) -> None:
        """End it."""
        self._running.close()

    def _has_panicked(self) -> bool:
        return self._console.exists() and "Kernel panic" in self._console.read_text(errors="replace")

    def _expect(self, answer: str, within_s: float, log: Path) -> None:
        self._commands.settimeout(within_s)
        try:
            said = self._answers.readline().strip()
        except TimeoutError:
            said = f"nothing within {within_s:g} s"
        if said != answer:
            log_tail = f"{read_tail(log)}\n{read_tail(self._console)}"
            raise FirstLevelError(f"the first level said {said or 'good-bye'!r}, not {answer!r}\n{log_tail}")


@contextmanager
def first_level(kernel: str = KERNEL, arguments: str = "") -> Iterator[FirstLevel]:
    """Boot the machine, and end it."""
    with tempfile.TemporaryDirectory(prefix="stealtime-first-level-") as folder:
        machine = FirstLevel(kernel, Path(folder), arguments)
        try:
            machine.boot()
            yield machine
        finally:
            machine.end()


def _fill(exchange: Path) -> None:
    exchange.mkdir()
    lines = [f"export {name}={shlex.quote(os.environ[name])}\n" for name in _KEPT_VARIABLES if name in os.environ]
    lines += [
        f"export PATH={shlex.quote(os.environ['PATH'])}:/usr/sbin:/sbin\n",
        f"cd {shlex.quote(str(Path.cwd()))}\n",
    ]
    (exchange / "environment").write_text("".join(lines))


def _arguments(kernel_choice: str, exchange: Path, kernel_arguments: str = "") -> list[str]:
    kernel = find_kernel(kernel_choice)
    busybox = shutil.which("busybox")
    if busybox is None:
        raise FirstLevelError("the program busybox is not installed: install the package busybox-static")
    wishes = [ModuleWish(name, required=False) for name in _MODULES]
    initramfs = pack_initramfs(_INIT, wishes, kernel, programs={"bin/busybox": Path(busybox)})
    return [
        *(find_qemu(), "-name", "stealtime-first-level", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"),
        *("-smp", str(_CPUS), "-m", f"{_MEMORY_MIB}M", "-no-reboot"),
        *("-kernel", str(kernel.boot_image), "-initrd", str(initramfs.path)),
        *("-append", f"console=ttyS0 quiet panic=-1 cryptomgr.notests no_timer_check {kernel_arguments}"),
        *_shared("root", Path("/"), "readonly=on,"),
        *_shared("exchange", exchange),
    ]


def _shared(tag: str, folder: Path, options: str = "") -> list[str]:
    path = str(folder).replace(",", ",,")
    return ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,{options}multidevs=remap"]


def shell(kernel: str) -> int:
    """Give a prompt in the machine, on this terminal; the exit code is that of QEMU."""
    with tempfile.TemporaryDirectory(prefix="stealtime-first-level-") as folder:
        exchange = Path(folder) / "exchange"
        _fill(exchange)
        (exchange / "shell").touch()
        argv = [
            *_arguments(kernel, exchange),
            "-chardev",
            "stdio,id=terminal,signal=off",
            "-serial",
            "chardev:terminal",
        ]
        return subprocess.run(argv, check=False).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default=KERNEL, help=f"what it boots: standard, backports or a path ({KERNEL})")
    parser.add_argument("command", nargs="*", help="run this in it and end, instead of a prompt")
    options = parser.parse_args()
    if not options.command:
        sys.exit(shell(options.kernel))
    began_s = time.monotonic()
    with first_level(options.kernel) as machine:
        print(f"up after {time.monotonic() - began_s:.1f} s", file=sys.stderr)
        print(machine.run(options.command, within_s=3600.0), end="")


if __name__ == "__main__":
    main()
