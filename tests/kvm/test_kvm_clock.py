"""The clock of a guest under KVM, kept by chrony with the host's as `ptp_kvm` gives it: docs/protect.md."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from first_level import FirstLevel
from ntp_guest import Chrony, client_configuration

from stealtime.lab.image.cache import cache_folder
from stealtime.lab.image.kernel import find_kernel
from stealtime.lab.image.modules import ModuleWish

pytestmark = [pytest.mark.kvm, pytest.mark.by_request]

PAGE = Path(__file__).parents[2] / "docs/protect.md"
RAN_WITHIN_S = 300.0
KEPT_S = 30
WRONG_TIME = "2020-01-01 00:00:00"
APART_MAX_S = 30.0
"""The console is read when the guest has ended, which takes an emulated host seconds."""
WITHIN_S = 1e-3
"""Of the clock that the device tells, by chrony's own account."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the first level sees too: it has a /tmp of its own."""
    path = cache_folder() / "chrony-test"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    yield path
    shutil.rmtree(path)


def test_chrony_takes_the_host_s_clock_from_the_device_of_ptp_kvm(
    machine: FirstLevel, folder: Path, tell: Callable[[str], None]
) -> None:
    match = re.search(r"chrony with `(refclock PHC [^`]+)`", PAGE.read_text())
    assert match is not None
    configuration = client_configuration(match[1], "makestep 0.1 -1\nlogdir /run/chrony\nlog tracking")
    initramfs = Chrony.unpack(folder / "tree").initramfs(
        configuration,
        f"$b sleep {KEPT_S}\n$b cat /run/chrony/tracking.log\necho told $($b date +%s)\n",
        (ModuleWish("ptp_kvm"),),
        f"$b date -s '{WRONG_TIME}'\n",
    )
    qemu = "qemu-system-x86_64 -accel kvm -cpu host -m 192 -nographic -no-reboot -net none"
    kernel = find_kernel("cloud").boot_image
    said = machine.run(
        f"{qemu} -kernel {kernel} -initrd {initramfs} -append 'console=ttyS0 quiet panic=-1'", within_s=RAN_WITHIN_S
    )
    told = re.search(r"^told (\d+)", said, re.MULTILINE)
    assert told is not None, said
    assert abs(time.time() - int(told[1])) < APART_MAX_S, said
    tracked = re.findall(r"^20\d\d-\S+ \S+ +PHC0 +1 +\S+ +\S+ +(\S+) ", said, re.MULTILINE)
    # The first two lines tell of the wrong time and of the step.
    offsets_s = [abs(float(offset)) for offset in tracked[2:]]
    assert len(offsets_s) > KEPT_S / 3, said
    assert max(offsets_s) < WITHIN_S, said
    tell(f"KVM: chrony with ptp_kvm, {len(offsets_s)} readings, off by {max(offsets_s) * 1e9:.0f} ns at most")
