"""Requests to a running QEMU over QMP, through the ``qemu.qmp`` library."""

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import Any

from qemu.qmp import QMPClient, QMPError

from stealtime.lab.platforms.below import is_emulated
from stealtime.lab.platforms.failure import MachineError

# What the library logs it also raises; without a handler it would be printed to the user's terminal as well.
logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)

ANSWER_WITHIN_S = 60.0 if is_emulated() else 10.0
"""QMP answers in ms; a QEMU that needs longer is stuck. On an emulated host QEMU alone takes seconds to start."""


class QemuMonitor:
    """A QMP connection over a socket that was made before QEMU was."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._client = QMPClient(name)

    async def connect(self, ours: socket.socket) -> None:
        """Wait for QEMU's greeting and agree on the capabilities.

        Raises:
            MachineError: QEMU ended or said something else.
        """
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._client.connect(ours)
        except (QMPError, TimeoutError) as error:
            raise MachineError(f"QEMU of {self._name} gave no QMP greeting: {error or type(error).__name__}") from error

    async def execute(self, command: str, arguments: Mapping[str, object] | None = None) -> Any:
        """Carry out a QMP command and give its result.

        Raises:
            MachineError: QEMU refused, ended, or did not answer in time.
        """
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                return await self._client.execute(command, dict(arguments) if arguments else None)
        except (QMPError, TimeoutError) as error:
            raise MachineError(
                f"QEMU of {self._name} failed at {command}: {error or type(error).__name__}",
                hint="see emulator.log of the cell",
            ) from error

    async def vcpu_threads(self) -> list[int]:
        """Give the thread id of each virtual CPU, in their order."""
        answer = await self.execute("query-cpus-fast")
        return [int(cpu["thread-id"]) for cpu in sorted(answer, key=lambda cpu: int(cpu["cpu-index"]))]

    async def vcpu_paths(self) -> list[str]:
        """Give the path of each virtual CPU in QEMU's tree of objects, in their order."""
        answer = await self.execute("query-cpus-fast")
        return [str(cpu["qom-path"]) for cpu in sorted(answer, key=lambda cpu: int(cpu["cpu-index"]))]

    async def version(self) -> str:
        answer = await self.execute("query-version")
        number = ".".join(str(answer["qemu"][part]) for part in ("major", "minor", "micro"))
        package = str(answer.get("package") or "").strip()
        return f"{number} ({package})" if package else number

    async def accelerator(self) -> str:
        """Give ``kvm`` or ``tcg``: what is really used, not what was asked for."""
        return "kvm" if (await self.execute("query-kvm"))["enabled"] else "tcg"

    async def cpu_properties(self, model: str = "max-x86_64-cpu") -> frozenset[str]:
        answer = await self.execute("device-list-properties", {"typename": model})
        return frozenset(str(item["name"]) for item in answer)

    async def close(self) -> None:
        """Let go of the connection; QEMU may be gone already."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._client.disconnect()
        except (QMPError, EOFError, OSError, TimeoutError):
            pass
