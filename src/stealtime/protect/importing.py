"""A machine of somebody else's description, step by step: what of it is taken, replaced, dropped and refused."""

import re
from dataclasses import dataclass, field
from typing import Any

from stealtime.protect.vm_file import VM_NAME, VmFile
from stealtime.vocabulary.errors import UsageError

_HINT = "write a VM.toml (docs/protect.md), or change the machine"


@dataclass
class Imported:
    """What is made of a description.

    Attributes:
        vm: The machine.
        remarks: What is replaced or dropped, in sentences.
        document: The machine as ``VM.toml`` has it.
    """

    vm: VmFile
    remarks: list[str]
    document: dict[str, Any]

    def text(self) -> str:
        """Give a ``VM.toml`` of it, with the remarks at its head."""
        import tomli_w

        head = "".join(f"# {' '.join(remark.split())}\n" for remark in self.remarks)
        return f"{head}{tomli_w.dumps(self.document)}"


@dataclass
class Importing:
    """A description that is being read.

    Attributes:
        source: Where it comes from, for messages.
        bridge: The bridge that its network card is to join; None: the one that it names.
        machine: What was taken so far, as in ``VM.toml``.
        remarks: What was replaced or dropped, in sentences, each once.
    """

    source: str
    bridge: str | None = None
    machine: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def refuse(self, what: str, why: str, hint: str = _HINT) -> UsageError:
        return UsageError(f"{self.source}: {what} cannot be protected: {why}", hint=hint)

    def drop(self, what: str) -> None:
        self._remark(f"dropped: {what}")

    def replace(self, what: str, by: str) -> None:
        self._remark(f"replaced: {what} by {by}")

    def _remark(self, remark: str) -> None:
        if remark not in self.remarks:
            self.remarks.append(remark)

    def take_name(self, name: str) -> None:
        """Take a name, in the letters that a machine's may have.

        Raises:
            UsageError: Nothing is left of it.
        """
        own = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:40]
        if not re.fullmatch(VM_NAME, own):
            raise self.refuse(f"the name {name!r}", "a machine's name has letters, digits and '-'")
        if own != name:
            self.replace(f"the name {name}", own)
        self.machine["name"] = own

    def add_disk(self, name: str, path: str, image_format: str, bus: str) -> None:
        """Take a disk; what is as by default is not said."""
        usual = {"format": "raw", "bus": "virtio"}
        stated = {key: value for key, value in {"format": image_format, "bus": bus}.items() if value != usual[key]}
        self.machine.setdefault("disks", []).append({"name": name, "path": path, **stated})

    def add_card(self, what: str, mac: str, bridge: str | None, hint: str) -> None:
        """Take the network card.

        Args:
            what: Its name in messages.
            mac: Its address; empty: one that is made of the machine's name.
            bridge: That it joins here.
            hint: How a bridge is named where it joins none.

        Raises:
            UsageError: There is one, or it joins no bridge.
        """
        if "network" in self.machine:
            raise self.refuse("a second network card", "there is one, whose output is held")
        joined = self.bridge or bridge
        if joined is None:
            raise self.refuse(what, "which bridge of the host it joins is not said", hint)
        self.machine["network"] = {"bridge": joined, "mac": mac} if mac else {"bridge": joined}

    def finish(self) -> Imported:
        """Give the machine.

        Raises:
            UsageError: It is none that can be protected.
        """
        if "network" not in self.machine:
            self._remark("added: a network card, which every protected machine has")
        try:
            vm = VmFile.model_validate(self.machine)
        except ValueError as error:
            from stealtime.protect.session import first_fault

            raise UsageError(f"{self.source}: {first_fault(error)}", hint=_HINT) from error
        return Imported(vm, self.remarks, self.machine)
