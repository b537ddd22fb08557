"""Disks of protected machines: what is taken for one, where a host finds its own, and copies to try something out."""

import json
from pathlib import Path
from typing import get_args

import pytest
from qcow2_header import qcow2_header

from stealtime.hosts.copied_disks import with_copied_disks
from stealtime.protect.disk_images import ImageFormat
from stealtime.protect.disk_links import default_folder, keep_links
from stealtime.protect.machine import resolve_machine
from stealtime.protect.specification import ImageFileSpec
from stealtime.protect.vm_file import VmFile, parse_vm_file
from stealtime.vocabulary.errors import StealtimeError, UsageError

COUNTER = 'name = "db"\nprogram = "counter"\n'
DISK = '[[disks]]\nname = "root"\npath = "root.raw"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "root.raw").write_bytes(bytes(4096))
    return tmp_path


def parse(text: str, folder: Path) -> VmFile:
    return parse_vm_file(text, "VM.toml", folder)


def test_a_disk_is_a_raw_image_beside_the_file(folder: Path) -> None:
    (disk,) = parse(COUNTER + DISK, folder).disks
    assert (disk.path, disk.size_bytes) == (folder / "root.raw", 4096)


def test_a_disk_of_qemus_own_format_is_as_long_as_its_header_says(folder: Path) -> None:
    (folder / "root.raw").write_bytes(qcow2_header(size=3 << 30))
    (disk,) = parse(COUNTER + DISK + 'format = "qcow2"\n', folder).disks
    assert (disk.image_format, disk.size_bytes) == ("qcow2", 3 << 30)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (bytes(4096), "is no qcow2 image"),
        (qcow2_header()[:40], "is no qcow2 image"),
        (qcow2_header(version=4), "of version 4"),
        (qcow2_header(backing=b"/etc/passwd"), "has the backing file '/etc/passwd'; .* `qemu-img convert"),
        (qcow2_header(backing=b"\xff" * 2000), "has the backing file"),
        (qcow2_header(crypt_method=2), "is encrypted"),
        (qcow2_header(snapshots=2), "has 2 internal snapshots"),
        (qcow2_header(incompatible=1), "was left open .* `qemu-img check -r all"),
        (qcow2_header(incompatible=2), "is marked as corrupt: `qemu-img check -r all"),
        (qcow2_header(incompatible=4), "has its data in another file: `qemu-img convert"),
        (qcow2_header(incompatible=8), "is compressed by another method"),
        (qcow2_header(incompatible=1 << 40), r"a feature that is not known \(bit 40\)"),
        (qcow2_header(size=700), "no whole number of sectors"),
    ],
)
def test_an_image_of_qemus_own_format_that_cannot_be_protected_is_one_sentence(
    folder: Path, content: bytes, told: str
) -> None:
    (folder / "root.raw").write_bytes(content)
    with pytest.raises(UsageError, match=told):
        parse(COUNTER + DISK + 'format = "qcow2"\n', folder)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (qcow2_header(), "is a qcow2 image; say so with format"),
        (b"KDMV" + bytes(508), "is a VMDK image"),
        (bytes(700), "no whole number of sectors"),
        (b"", "no whole number of sectors"),
    ],
)
def test_what_is_no_raw_image_is_refused_by_name(folder: Path, content: bytes, told: str) -> None:
    (folder / "root.raw").write_bytes(content)
    with pytest.raises(UsageError, match=told) as refused:
        parse(COUNTER + DISK, folder)
    assert "path in [[disks]] 1" in refused.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (DISK.replace("root.raw", "gone.raw"), "cannot be read: No such file"),
        (DISK.replace("root.raw", "."), "is no regular file"),
        (DISK.replace("root.raw", "/dev/null"), "is no regular file"),
        (DISK.replace('"root"', '"a/b"'), "name"),
        (DISK.replace('"root"', '"a name that is far too long"'), "name"),
        (DISK + DISK, "the disk 'root' is named twice"),
        (DISK + 'format = "vmdk"\n', "format"),
        (DISK.replace("root.raw", "/dev/null") + 'format = "qcow2"\n', "is no regular file"),
        ('disk_copy_rate = "1KiB"\n', "disk_copy_rate"),
        ('disks = "root.raw"\n', "disks"),
        ('flush = "never"\n', "flush"),
    ],
)
def test_a_disk_that_is_none_is_one_sentence(folder: Path, text: str, told: str) -> None:
    before, after = (text, "") if not text.startswith("[[") else ("", text)
    with pytest.raises(UsageError, match=told) as refused:
        parse(before + COUNTER + after, folder)
    assert refused.value.hint


def test_a_machine_without_a_kernel_of_its_file_boots_from_its_first_disk(folder: Path) -> None:
    vm = parse('name = "db"\nkernel = "disk"\n' + DISK, folder)
    machine = resolve_machine(vm)
    assert (machine.kernel, machine.initramfs, machine.kernel_arguments) == (None, None, "")
    for added, told in {
        "": "there is none",
        f'program = "counter"\n{DISK}': "program is given",
        f'kernel_arguments = "quiet"\n{DISK}': "kernel_arguments is given",
    }.items():
        with pytest.raises(UsageError, match=told):
            parse(f'name = "db"\nkernel = "disk"\n{added}', folder)


def test_images_outlive_a_reboot_where_the_state_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_folder(Path("/run/stealtime/protect"), "a") == Path("/var/lib/stealtime/disks/a")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    monkeypatch.setenv("XDG_DATA_HOME", "/home/u/.local/share")
    own = default_folder(Path("/run/user/7/stealtime/protect"), "a")
    assert own == Path("/home/u/.local/share/stealtime/disks/a")
    assert default_folder(Path("/srv/state"), "a") == Path("/srv/state/.disks/a")


def test_a_host_finds_the_image_of_its_own_machine(folder: Path) -> None:
    disks, config = folder / "disks", folder / "host.json"
    link, image = disks / "db" / "root.raw", folder / "root.raw"

    def keep(path: Path, image_format: ImageFormat = "raw") -> list[Path]:
        image = ImageFileSpec(path=path, format_=image_format)
        return [kept.path for kept in keep_links(config, disks, "db", [("root", image)])]

    assert keep(image) == [image]
    assert link.is_symlink()
    assert link.resolve() == image
    # Another image of the same machine takes its place; one that came from another host does not give way.
    (other := folder / "other.raw").write_bytes(bytes(512))
    keep(other)
    assert link.resolve() == other
    # There is one link, whatever the format is.
    keep(other, "qcow2")
    assert [path.name for path in link.parent.iterdir()] == ["root.qcow2"]
    keep(other)
    assert [path.name for path in link.parent.iterdir()] == ["root.raw"]
    link.unlink()
    link.write_bytes(bytes(512))
    for image_format in get_args(ImageFormat):
        with pytest.raises(UsageError, match="which came from another host"):
            keep(image, image_format)
    keep(link)
    assert not link.is_symlink(), "it is its own"
    # The daemon's own word comes first.
    config.write_text(json.dumps({"disks": str(folder / "told")}))
    keep(image)
    assert (folder / "told" / "db" / "root.raw").resolve() == image


def test_what_is_tried_out_writes_to_a_copy(folder: Path) -> None:
    machine = {"name": "db", "disks": [{"name": "root", "path": str(folder / "root.raw")}]}
    copied = with_copied_disks(machine, folder / "copies")
    copy = Path(copied["disks"][0]["path"])
    copy.write_bytes(b"changed")
    assert (folder / "root.raw").read_bytes() == bytes(4096)
    assert machine["disks"] != copied["disks"]
    assert with_copied_disks({"name": "db"}, folder / "none") == {"name": "db"}
    assert not (folder / "none").exists()
    (folder / "root.raw").unlink()
    with pytest.raises(StealtimeError, match="the disk 'root' cannot be copied"):
        with_copied_disks(machine, folder / "copies")
