"""The tests of crates/capture that boot guests, which `cargo test` alone leaves out: they need a kernel.

All memory is compared with its copy after each epoch, under load on the memory and the network card, with one and two
virtual CPUs. The copy is begun while the guest runs. `STEALTIME_CAPTURE_EPOCHS=10000` looks for a page that is missed
once in so many.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stealtime.lab.image.kernel import find_kernel

pytestmark = [pytest.mark.protect, pytest.mark.truth]

EPOCHS = int(os.environ.get("STEALTIME_CAPTURE_EPOCHS", "100"))
_REPOSITORY = Path(__file__).parents[2]
_SPLIT = re.compile(r"^(\d+) epochs, (\d+) pages written, 0 missed$", re.MULTILINE)
_FAULT = re.compile(r"^thread .* panicked at .*\n.*", re.MULTILINE)
_COUNT = re.compile(r"^test result: ok\. (\d+) passed; 0 failed", re.MULTILINE)


def test_no_page_is_missed_and_guests_go_on_in_their_standby() -> None:
    cargo = shutil.which("cargo", path=f"{os.environ['PATH']}:{Path.home() / '.cargo/bin'}")
    if cargo is None:
        pytest.skip("cargo is not installed")
    kernel = find_kernel("cloud")
    assert kernel.modules_folder is not None
    # As tools/test.sh has built them: with other packages or features cargo would build them once more.
    argv = [cargo, "test", "--workspace", "--locked", "--profile", "bench"]
    argv += ["--test", "failover", "--", "--ignored", "--test-threads=2"]
    # Few kernels have soft-dirty bits; the ring of KVM boots one that has.
    argv += ["--skip", "soft_dirty"]
    done = subprocess.run(
        [*argv, "--nocapture"],
        cwd=_REPOSITORY,
        env={
            **os.environ,
            "STEALTIME_CAPTURE_EPOCHS": str(EPOCHS),
            "STEALTIME_KERNEL": str(kernel.boot_image),
            "STEALTIME_KERNEL_MODULES": str(kernel.modules_folder),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    # A log that is cut keeps its end: what went wrong is said there once more, without the traces.
    faults = "\n".join(_FAULT.findall(done.stderr))
    assert done.returncode == 0, f"{said}\n{faults}"
    assert sum(int(count) for count in _COUNT.findall(done.stdout)) > 0, said
    runs = [(int(epochs), int(pages)) for epochs, pages in _SPLIT.findall(done.stderr)]
    assert [epochs for epochs, _ in runs] == [EPOCHS] * 4, said
    assert all(pages > epochs for epochs, pages in runs), said
    sys.stdout.write(done.stderr)
