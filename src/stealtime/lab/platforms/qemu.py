"""QEMU guests of every flavour: started paused, pinned to CPUs over QMP, then resumed."""

import asyncio
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from typing import BinaryIO, cast

from stealtime.lab.image.initramfs import Initramfs, pack_initramfs
from stealtime.lab.image.kernel import Kernel, find_kernel, is_cached
from stealtime.lab.platforms import hyperv, kvm_counters, kvm_proof, kvm_tsc
from stealtime.lab.platforms.affinity import list_threads, pin_thread
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.device_models import module_wishes
from stealtime.lab.platforms.failure import MachineError, log_tail, read_tail
from stealtime.lab.platforms.host_clock import host_tsc_khz
from stealtime.lab.platforms.leftovers import clear_leftovers
from stealtime.lab.platforms.machine import (
    NO_TSC_OFFSET,
    BootedMachine,
    await_agent,
    boot_record,
    describe_end,
    end_machine,
    own_cpu_group,
)
from stealtime.lab.platforms.model import Availability, Machine, MachineRequest
from stealtime.lab.platforms.process import GuestProcess, guarded
from stealtime.lab.platforms.qemu_arguments import QemuGuest, qemu_arguments
from stealtime.lab.platforms.qemu_devices import DISK_FOLDER, back_devices, files_of, known_devices, refuse_lacking
from stealtime.lab.platforms.qemu_flavour import QemuFlavour
from stealtime.lab.platforms.qemu_monitor import QemuMonitor
from stealtime.lab.platforms.qemu_program import cpu_properties, find_qemu, qemu_version
from stealtime.lab.platforms.qemu_trace import TRACE_FILE, can_trace
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Absent
from stealtime.wire.connection import READ_BYTES, AgentConnection

DEFAULT_KERNEL = "rt"

_BULK_BYTES_MINIMUM = 1 << 30
_NO_KVM = Absent(absent="QEMU's TCG translates instructions: no KVM counters exist")


class QemuPlatform:
    """One flavour of QEMU."""

    def __init__(self, flavour: QemuFlavour) -> None:
        self.flavour = flavour
        self.name = flavour.name

    async def check(self) -> Availability:
        """Usable where QEMU is installed and a kernel can be had; with KVM only after a guest has really booted."""
        try:
            program = find_qemu()
            version = qemu_version(program)
            find_agent()
        except StealtimeError as error:
            return Availability(usable=False, reason=error.message, hint=error.hint)
        if not is_cached(DEFAULT_KERNEL) and shutil.which("apt-get") is None:
            return Availability(
                usable=False,
                reason=f"no guest kernel: {DEFAULT_KERNEL!r} is not cached and there is no apt-get to fetch it with",
                hint="name a kernel with --kernel PATH",
            )
        if self.flavour.accelerator == "kvm":
            return await kvm_proof.prove(
                self.flavour, version, lambda flavour: partial(QemuPlatform(flavour).boot, talkative=True)
            )
        return Availability(usable=True, reason=f"QEMU {version}, translating instructions (TCG), not KVM")

    @asynccontextmanager
    async def boot(self, request: MachineRequest, *, talkative: bool = False) -> AsyncIterator[Machine]:
        clear_leftovers()
        program = find_qemu()
        version = qemu_version(program)
        # Fetching and unpacking a kernel takes seconds, the first time.
        kernel = await asyncio.to_thread(find_kernel, request.kernel)
        refuse_lacking(request.devices, known_devices(program) if request.devices else (), program)
        wishes = (*self.flavour.modules, *module_wishes(request.devices))
        initramfs = await asyncio.to_thread(pack_initramfs, find_agent(), wishes, kernel)
        tsc_khz = await asyncio.to_thread(host_tsc_khz, find_agent()) if self.flavour.trusts_host_tsc else None
        hyperv_choice = await self._hyperv_choice(program, request)
        serial_log, emulator_log = request.folder / "serial.log", request.folder / "emulator.log"
        traced = request.is_emulator_traced and request.devices and can_trace(program)
        emulator_trace = request.folder / TRACE_FILE if traced else None
        async with AsyncExitStack() as resources:
            group = await resources.enter_async_context(own_cpu_group(request))
            (qmp, channel), their_qmp, their_channel = _socket_pairs(resources)
            bulk = self._bulk_file(request, resources)
            files = ExitStack()
            resources.callback(files.close)
            backed = tuple(await asyncio.to_thread(back_devices, request.devices, DISK_FOLDER, files))
            guest = QemuGuest(
                flavour=self.flavour,
                program=program,
                name=f"stealtime-{self.flavour.accelerator}-{self.flavour.style}",
                vcpus=len(request.vcpu_cpus),
                memory_bytes=request.memory_bytes,
                kernel=kernel.boot_image,
                initramfs=initramfs.path,
                serial_log=serial_log,
                qmp=their_qmp.fileno(),
                channel=their_channel.fileno(),
                bulk=bulk.fileno() if bulk is not None else None,
                hyperv_options=() if hyperv_choice is None else hyperv_choice.options,
                host_tsc_khz=tsc_khz,
                talkative=talkative,
                devices=backed,
                emulator_trace=emulator_trace,
            )
            argv = qemu_arguments(guest)
            started = time.monotonic()
            process = await GuestProcess.start(
                guarded(argv, cpus=request.cpus_of_emulator, cgroups=[] if group is None else [group.path]),
                name="QEMU",
                log=emulator_log,
                pass_fds=[fd for fd in (guest.qmp, guest.channel, guest.bulk, *files_of(backed)) if fd is not None],
            )
            resources.push_async_callback(process.end)
            their_qmp.close()
            their_channel.close()
            monitor = QemuMonitor(self.name)
            resources.push_async_callback(monitor.close)
            try:
                await monitor.connect(qmp)
                vcpus = await monitor.vcpu_threads()
                _pin(self.name, vcpus, request.vcpu_cpus)
                facts = await self._facts(monitor, version, kernel, initramfs, hyperv_choice)
                reader, writer = await asyncio.open_connection(sock=channel, limit=READ_BYTES)
                connection = AgentConnection(
                    reader, writer, peer=self.name, bulk=bulk, describe_end=partial(describe_end, process, serial_log)
                )
                await monitor.execute("cont")
            except MachineError as error:
                if not await process.wait(1.0):
                    raise
                raise MachineError(
                    f"{self.name} did not start ({process.exit_text()}); {log_tail(emulator_log)}",
                    hint=f"see {emulator_log.name}",
                    serial_tail=read_tail(emulator_log),
                ) from error
            graceful, is_kvm = False, self.flavour.accelerator == "kvm"
            try:
                hello = await await_agent(self.name, connection, process, request, (serial_log, emulator_log))
                yield BootedMachine(
                    platform=self.name,
                    connection=connection,
                    boot=boot_record(process.argv, started, facts),
                    measured_cpus=(len(request.vcpu_cpus) - 1,),
                    cpu_group=group,
                    serial_log=serial_log,
                    emulator_trace=emulator_trace,
                    agent_facts=hello.facts,
                    process=process,
                    list_threads=partial(list_threads, process.pid, dict.fromkeys(vcpus, "vcpu")),
                    read_tsc_offset=partial(kvm_tsc.tsc_offset, process.pid, len(vcpus) - 1)
                    if is_kvm
                    else NO_TSC_OFFSET,
                    count_exits=partial(kvm_counters.look, monitor) if is_kvm else _NO_KVM,
                )
                graceful = True
            finally:
                await end_machine(connection, process, graceful=graceful)

    def _bulk_file(self, request: MachineRequest, resources: AsyncExitStack) -> BinaryIO | None:
        """Make the unnamed, sparse file behind the bulk disk; all tables of a trial fit in the guest's memory."""
        if not self.flavour.has_bulk_disk:
            return None
        file = resources.enter_context(cast(BinaryIO, tempfile.TemporaryFile(dir=request.folder)))  # noqa: SIM115
        file.truncate(max(_BULK_BYTES_MINIMUM, 2 * request.memory_bytes))
        return file

    async def _hyperv_choice(self, program: str, request: MachineRequest) -> hyperv.HypervChoice | None:
        if self.flavour.style != "hyperv":
            return None
        properties = await cpu_properties(program, request.housekeeping_cpus[0])
        leaves, hardware_interrupts = hyperv.supported_leaves(), hyperv.uses_hardware_interrupts()
        return hyperv.choose(properties, leaves, hardware_interrupts=hardware_interrupts)

    async def _facts(
        self,
        monitor: QemuMonitor,
        version: str,
        kernel: Kernel,
        initramfs: Initramfs,
        hyperv_choice: hyperv.HypervChoice | None,
    ) -> dict[str, str]:
        accelerator = await monitor.accelerator()
        if accelerator != self.flavour.accelerator:
            raise MachineError(f"{self.name} runs under {accelerator}, not under {self.flavour.accelerator}")
        facts = {
            "accelerator": accelerator,
            "qemu_version": await monitor.version(),
            "qemu_program_version": version,
            "kernel_choice": kernel.choice,
            "kernel_release": kernel.release,
            "kernel_version": kernel.version_text,
            "kernel_image": str(kernel.boot_image),
            "kernel_sha256": kernel.sha256,
            "boot_format": kernel.boot_format,
            "initramfs_sha256": initramfs.sha256,
            "modules": " ".join(initramfs.modules),
        }
        if hyperv_choice is not None:
            facts["hyperv_features"] = " ".join(hyperv_choice.options)
            left_out = [f"{name}: {reason}" for name, reason in hyperv_choice.left_out.items()]
            facts["hyperv_features_left_out"] = "; ".join(left_out)
        return facts


def _socket_pairs(
    resources: AsyncExitStack,
) -> tuple[tuple[socket.socket, socket.socket], socket.socket, socket.socket]:
    """Make the socket pairs for QMP and for the agent's channel: our ends, QEMU's end of each."""
    qmp, their_qmp = (resources.enter_context(end) for end in socket.socketpair())
    channel, their_channel = (resources.enter_context(end) for end in socket.socketpair())
    return (qmp, channel), their_qmp, their_channel


def _pin(name: str, vcpus: list[int], cpus: tuple[tuple[int, ...], ...]) -> None:
    """Put each virtual CPU's thread on its physical CPUs; the others started on those of the emulator."""
    if len(vcpus) != len(cpus):
        raise MachineError(f"QEMU of {name} has {len(vcpus)} virtual CPUs, {len(cpus)} were asked for")
    for tid, allowed in zip(vcpus, cpus, strict=True):
        pin_thread(tid, allowed)
