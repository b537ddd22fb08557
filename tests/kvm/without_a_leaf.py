"""Run in the first level: boots a guest with enlightenments under a KVM that says it has no synthetic timers."""

import asyncio
import copy
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from stealtime.lab.platforms import hyperv, registry
from stealtime.lab.platforms.model import MachineRequest

SYNTHETIC_TIMERS = 1 << 3


async def main() -> None:
    leaves: Any = copy.deepcopy(hyperv.supported_leaves())
    leaves[0x4000_0003]["eax"] &= ~SYNTHETIC_TIMERS
    with mock.patch.object(hyperv, "supported_leaves", return_value=leaves), tempfile.TemporaryDirectory() as folder:
        request = MachineRequest(vcpu_cpus=((1,),), housekeeping_cpus=(0,), folder=Path(folder), boot_timeout_s=180.0)
        async with registry.find("qemu-kvm-hyperv").boot(request) as machine:
            print(machine.boot.facts["hyperv_features_left_out"])
            print(f"the agent answered after {machine.boot.elapsed_to_hello_s:.1f} s")


asyncio.run(main())
