"""From `stealtime run` to the first guest sample, against the bare boot of that kernel under that QEMU; and UML.

*Bare boot*: the same QEMU, board, processor, kernel image and memory, an initramfs that holds nothing but the agent, no
device but a serial line. It lasts from the start of the process to the first line that user space prints (the agent
finds no channel, says so and powers off).

*First sample*: from the start of the `stealtime` process to the first sample of its first cell, which the guest stamped
with its own clock; the clock exchange before the cell puts it on the host's time line. In between lie: Python, the
calibration of the busy loop on the host, QEMU with its devices and pinned threads, the kernel, its modules, the hello,
the clock exchange and the settling of the guest's clocks.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pairs import Ratio, arguments, spread, take_turns

from stealtime.lab.image.initramfs import pack_initramfs
from stealtime.lab.image.kernel import find_kernel
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.qemu_program import find_qemu

PLATFORM = "qemu-tcg-paravirt"
TARGET_RATIO = 1.3
TARGET_UML_S = 2.5


def first_sample_s(platform: str) -> float:
    """Measure with a run of one short cell."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [str(Path(sys.executable).with_name("stealtime")), "run", "quick", "-P", platform, "--probe", "tick"]
        argv += ["--duration", "200ms", "--repetitions", "1", "--out", folder]
        began_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        finished = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        documents = list(Path(folder).glob("*/cells/*/trial.json"))
        trial = json.loads(documents[0].read_text()) if documents else {}
    if trial.get("outcome") is None:
        raise SystemExit(f"{platform}: no cell was measured:\n{finished.stderr}")
    first_ns = int(trial["outcome"]["clock"]["start"]["monotonic_raw_ns"])
    offset_ns = int(trial["alignment"]["before"]["machine_minus_host_ns"])
    return (first_ns - offset_ns - began_ns) / 1e9


def bare_boot_s() -> float:
    """Boot the same kernel with nothing around it."""
    kernel, initramfs = find_kernel("rt"), pack_initramfs(find_agent())
    argv = [find_qemu(), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    argv += ["-machine", "q35,accel=tcg,hpet=off", "-cpu", "max", "-smp", "1", "-m", "256M"]
    argv += ["-kernel", str(kernel.boot_image), "-initrd", str(initramfs.path)]
    argv += ["-append", "console=ttyS0 quiet panic=-1", "-serial", "stdio"]
    began_s = time.monotonic()
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if b"stealtime-agent:" in line:
                elapsed_s = time.monotonic() - began_s
                process.kill()
                return elapsed_s
    raise SystemExit("the bare guest did not reach user space")


def main() -> None:
    options = arguments(__doc__, pairs=5).parse_args()
    sides = {"to the first sample": lambda: first_sample_s(PLATFORM), "bare boot": bare_boot_s}
    # Caches of the kernel, the initramfs and the host's clock rate.
    first_sample_s(PLATFORM)
    pairs = tuple(take_turns(options.pairs, sides))
    uml = spread([first_sample_s("uml") for _ in range(options.pairs)])
    ratio = Ratio(f"first sample of {PLATFORM}", "s", TARGET_RATIO, pairs)
    ratio.print(as_json=options.json, uml={"unit": "s", **uml, "target": TARGET_UML_S})
    if not options.json:
        spread_text = " / ".join(f"{uml[key]:.2f}" for key in ("min", "median", "max"))
        print(f"first sample of uml: {spread_text} s\ntarget: <= {TARGET_UML_S} s")


if __name__ == "__main__":
    main()
