"""What docs/protect.md shows of files can be used as it is shown."""

import re
from pathlib import Path

import pytest
from qcow2_header import qcow2_header

from stealtime.protect.host_file import HostFile, read_host_file
from stealtime.protect.vm_file import Network, Register, Timing, VmFile, parse_vm_file

DOCUMENT = Path(__file__).parents[2] / "docs" / "protect.md"
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
HOSTS = [text for text in EXAMPLES if "\nlisten = " in text]
MACHINES = [text for text in EXAMPLES if text not in HOSTS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("ca.pem", "b.pem", "b.key", "client.pem", "client.key"):
        (tmp_path / name).write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "root.qcow2").write_bytes(qcow2_header())
    for host in "ab":
        (tmp_path / f"stealtime-host-{host}.password").touch(mode=0o600)
    return tmp_path


@pytest.mark.parametrize("text", MACHINES)
def test_every_machine_shown_is_one(text: str, folder: Path) -> None:
    assert parse_vm_file(text, "VM.toml", folder).name in ("counter", "phone", "relay", "database")


@pytest.mark.parametrize("text", HOSTS)
def test_every_host_shown_is_one(text: str, folder: Path) -> None:
    file = folder / "HOST.toml"
    file.write_text(text)
    assert read_host_file(file).listen == "tcp:10.0.0.2:7460"


def test_the_defaults_shown_are_the_defaults(folder: Path) -> None:
    (text,) = [text for text in MACHINES if "overhead = " in text]
    shown = parse_vm_file(text, "VM.toml", folder)
    chosen = {"name", "initramfs", "network", "register_", "standby_hosts"}
    for name, field in VmFile.model_fields.items():
        if name not in chosen and not field.is_required():
            assert getattr(shown, name) == field.get_default(call_default_factory=True), name


def test_every_key_is_documented() -> None:
    text = DOCUMENT.read_text()
    for model in (VmFile, Network, Timing, Register, HostFile):
        for name, field in model.model_fields.items():
            key = field.alias or name
            assert re.search(rf"\b{key}\b", text), key
