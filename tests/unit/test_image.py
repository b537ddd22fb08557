"""Kernels and initramfs images on fabricated inputs: no network, no real kernel."""

import bz2
import gzip
import lzma
import multiprocessing
import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import lz4.block  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from stealtime.lab.image import debian
from stealtime.lab.image.bzimage import KernelImageError, extract_vmlinux, read_version_text
from stealtime.lab.image.cache import obtain_entry, read_entry, remembered_hash
from stealtime.lab.image.debian import parse_dependency
from stealtime.lab.image.initramfs import pack_initramfs
from stealtime.lab.image.kernel import Kernel, find_kernel
from stealtime.lab.image.modules import ModuleWish, load_order, module_name
from stealtime.lab.image.vmlinux import has_pvh_entry
from stealtime.vocabulary.errors import StealtimeError, UsageError

VERSION = "6.1.0-9-test (someone@somewhere) #1 SMP PREEMPT_RT"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "stealtime"


def fabricate_vmlinux(*, pvh: bool = True) -> bytes:
    note = struct.pack("<III4sI", 4, 4, 18 if pvh else 17, b"Xen\0", 0x100000)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0x100000, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    header += struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(note), len(note), 4)
    return header + note + f"Linux version {VERSION}\n".encode() + b"\0" * 64


def lz4_legacy(content: bytes) -> bytes:
    block: bytes = lz4.block.compress(content, store_size=False)
    return b"\x02\x21\x4c\x18" + struct.pack("<I", len(block)) + block


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": lambda content: bz2.compress(content) + struct.pack("<I", len(content)),
    "xz": lambda content: lzma.compress(content) + struct.pack("<I", len(content)),
    "lzma": lambda content: lzma.compress(content, lzma.FORMAT_ALONE) + struct.pack("<I", len(content)),
    "zstd": lambda content: zstandard.compress(content) + struct.pack("<I", len(content)),
    "lz4": lambda content: lz4_legacy(content) + struct.pack("<I", len(content)),
}


def fabricate_bzimage(payload: bytes) -> bytes:
    """A setup part of two sectors, then 64 bytes of code, then the payload."""
    image = bytearray(3 * 512)
    image[0x1F1] = 2
    image[0x1FE:0x200] = b"\x55\xaa"
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", image, 0x206, 0x020F)
    struct.pack_into("<H", image, 0x20E, 0x300 - 0x200)
    image[0x300 : 0x300 + len(VERSION) + 1] = VERSION.encode() + b"\0"
    struct.pack_into("<II", image, 0x248, 64, len(payload))
    return bytes(image) + b"\x90" * 64 + payload


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_the_elf_kernel_comes_out_of_every_compression_that_kernels_use(name: str) -> None:
    vmlinux = fabricate_vmlinux()
    image = fabricate_bzimage(COMPRESSIONS[name](vmlinux))
    assert extract_vmlinux(image) == vmlinux
    assert read_version_text(image) == VERSION


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_a_damaged_payload_is_a_sentence(name: str) -> None:
    payload = bytearray(COMPRESSIONS[name](fabricate_vmlinux()))
    payload[10:40] = b"\xff" * 30
    with pytest.raises(KernelImageError, match=r"damaged|not an ELF"):
        extract_vmlinux(fabricate_bzimage(bytes(payload)))


def test_a_bzimage_cut_short_and_an_unknown_compression_are_sentences() -> None:
    image = fabricate_bzimage(gzip.compress(fabricate_vmlinux()))
    with pytest.raises(KernelImageError, match="truncated"):
        extract_vmlinux(image[:-1])
    with pytest.raises(KernelImageError, match="unknown compression"):
        extract_vmlinux(fabricate_bzimage(b"whatever this may be"))


@given(st.binary(max_size=2000))
def test_arbitrary_bytes_are_no_kernel_and_nothing_worse(data: bytes) -> None:
    with pytest.raises(KernelImageError):
        extract_vmlinux(data)


def test_a_pvh_entry_is_seen() -> None:
    assert has_pvh_entry(fabricate_vmlinux())
    assert not has_pvh_entry(fabricate_vmlinux(pvh=False))


def test_a_kernel_file_is_unpacked_once_and_again_when_the_cache_is_damaged(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "boot").mkdir()
    image = tmp_path / "boot" / "vmlinuz"
    image.write_bytes(fabricate_bzimage(COMPRESSIONS["xz"](fabricate_vmlinux())))
    modules = tmp_path / "lib" / "modules" / "6.1.0-9-test"
    modules.mkdir(parents=True)
    (modules / "modules.dep").touch()
    kernel = find_kernel(str(image))
    assert (kernel.release, kernel.boot_format, kernel.modules_folder) == ("6.1.0-9-test", "vmlinux", modules)
    assert kernel.boot_image.read_bytes() == fabricate_vmlinux()
    assert kernel.boot_image.is_relative_to(cache)
    inode = kernel.boot_image.stat().st_ino
    assert find_kernel(str(image)).boot_image.stat().st_ino == inode, "the second time it must come from the cache"
    kernel.boot_image.write_bytes(b"damaged")
    assert find_kernel(str(image)).boot_image.read_bytes() == fabricate_vmlinux()


def test_a_kernel_without_pvh_entry_is_booted_as_it_is(tmp_path: Path) -> None:
    image = tmp_path / "vmlinuz"
    image.write_bytes(fabricate_bzimage(gzip.compress(fabricate_vmlinux(pvh=False))))
    kernel = find_kernel(str(image))
    assert (kernel.boot_image, kernel.boot_format, kernel.modules_folder) == (image, "bzimage", None)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read: No such file"), (b"", "begins with nothing"), (b"PK\x03\x04zip", "begins with 504b0304")],
)
def test_what_is_no_kernel_is_a_usage_error(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        find_kernel(str(path))
    assert caught.value.hint


def fabricate_package(folder: Path, release: str) -> Path:
    tree = folder / "package"
    for name in ("DEBIAN", "boot", f"lib/modules/{release}/kernel/drivers"):
        (tree / name).mkdir(parents=True)
    control = (
        "Package: linux-image-test\nVersion: 1\nArchitecture: amd64\nMaintainer: x <x@example.org>\nDescription: x\n"
    )
    (tree / "DEBIAN/control").write_text(control)
    (tree / f"boot/vmlinuz-{release}").write_bytes(fabricate_bzimage(COMPRESSIONS["zstd"](fabricate_vmlinux())))
    for name in ("modules.order", "modules.builtin"):
        (tree / f"lib/modules/{release}/{name}").touch()
    archive = folder / "linux-image-test.deb"
    subprocess.run(["dpkg-deb", "--build", "-Znone", str(tree), str(archive)], check=True, capture_output=True)
    return archive


def test_a_debian_kernel_needs_apt_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = "6.1.0-9-test"
    archive = fabricate_package(tmp_path, release)
    asked: list[str] = []

    def unpack(package: debian.KernelPackage, folder: Path) -> str:
        asked.append(package.name)
        debian.unpack_archive(archive, folder)
        return debian.finish_tree(folder)

    def resolve(meta_package: debian.MetaPackage) -> debian.KernelPackage:
        asked.append(meta_package.name)
        return debian.KernelPackage("linux-image-6.1.0-9-test", "1:2-3")

    monkeypatch.setattr(debian, "resolve_package", resolve)
    monkeypatch.setattr(debian, "unpack_package", unpack)
    kernel = find_kernel("rt")
    assert asked == ["linux-image-rt-amd64", "linux-image-6.1.0-9-test"]
    assert kernel.release == release
    assert kernel.modules_folder is not None
    assert (kernel.modules_folder / "modules.dep").exists()
    assert find_kernel("rt") == kernel
    assert len(asked) == 2, "the second time nobody is asked"
    kernel.boot_image.unlink()
    assert find_kernel("rt") == kernel
    assert len(asked) == 4, "a damaged cache is noticed"


def test_the_package_of_a_metapackage_is_read_from_what_apt_shows() -> None:
    shown = "Package: linux-image-rt-amd64\nDepends: linux-image-6.1.0-56-rt-amd64 (= 6.1.192-2)\nSize: 1480\n"
    package = parse_dependency("linux-image-rt-amd64", shown)
    assert (package.name, package.version) == ("linux-image-6.1.0-56-rt-amd64", "6.1.192-2")
    with pytest.raises(StealtimeError, match="depends on no kernel"):
        parse_dependency("linux-image-rt-amd64", "Package: linux-image-rt-amd64\n")


def test_a_kernel_in_several_packages_is_put_together_as_one_of_a_single_package(tmp_path: Path) -> None:
    shown = (
        "Package: linux-image-7.3.4+deb13-rt-amd64\n"
        "Depends: dracut | linux-initramfs-tool, linux-base-7.3.4+deb13-rt-amd64 (= 7.3.4-1), "
        "linux-binary-7.3.4+deb13-rt-amd64 (= 7.3.4-1), linux-modules-7.3.4+deb13-rt-amd64 (= 7.3.4-1)\n"
    )
    names = [f"linux-{part}-7.3.4+deb13-rt-amd64" for part in ("base", "binary", "modules")]
    assert list(debian.parse_parts("7.3.4-1", shown)) == names
    assert debian.parse_parts("7.3.5-1", shown) == ()
    release = "7.3.4+deb13-rt-amd64"
    modules = tmp_path / "usr" / "lib" / "modules" / release
    modules.mkdir(parents=True)
    (modules / "vmlinuz").write_bytes(b"image")
    (modules / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\n")
    (tmp_path / "lib" / "modules" / release / "kernel").mkdir(parents=True)
    (tmp_path / "lib" / "modules" / release / "modules.order").touch()
    assert debian.finish_tree(tmp_path) == release
    assert "virtio_pci" in (tmp_path / "lib" / "modules" / release / "modules.builtin").read_text()
    assert (tmp_path / "boot" / f"vmlinuz-{release}").read_bytes() == b"image"
    assert (tmp_path / "lib" / "modules" / release / "modules.dep").exists()


MODULES_DEP = """\
kernel/drivers/virtio/virtio.ko: kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio_ring.ko:
kernel/drivers/char/virtio_console.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/char/hw_random/virtio-rng.ko.xz: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
"""


def test_modules_come_after_what_they_need_and_once() -> None:
    wishes = [ModuleWish("virtio_rng"), ModuleWish("virtio_console"), ModuleWish("e1000", required=False)]
    order = load_order(wishes, MODULES_DEP, frozenset(), "6.1")
    assert [module_name(path) for path in order] == ["virtio_ring", "virtio", "virtio_rng", "virtio_console"]


def test_a_required_module_may_be_built_in_but_not_missing() -> None:
    assert load_order([ModuleWish("ata_piix")], MODULES_DEP, frozenset({"ata_piix"}), "6.1") == []
    with pytest.raises(StealtimeError, match=r"kernel 6\.1 has no module 'ata_piix'"):
        load_order([ModuleWish("ata_piix")], MODULES_DEP, frozenset(), "6.1")


def test_an_initramfs_holds_the_agent_and_its_modules_and_is_packed_once(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.write_bytes(b"\x7fELF agent")
    modules = tmp_path / "modules"
    for name in ("virtio_ring.ko", "virtio.ko", "virtio_console.ko", "virtio-rng.ko.xz"):
        path = next(line.split(":")[0] for line in MODULES_DEP.splitlines() if line.split(":")[0].endswith(name))
        (modules / path).parent.mkdir(parents=True, exist_ok=True)
        content = name.encode()
        (modules / path).write_bytes(lzma.compress(content) if name.endswith(".xz") else content)
    (modules / "modules.dep").write_text(MODULES_DEP)
    kernel = Kernel("x", "6.1", "6.1 x", tmp_path, "vmlinux", "0" * 64, modules)
    packed = pack_initramfs(agent, [ModuleWish("virtio_rng")], kernel)
    assert packed.modules == ("virtio_ring.ko", "virtio.ko", "virtio-rng.ko")
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    argv = ["cpio", "--extract", "--quiet", "--make-directories", "--no-preserve-owner"]
    subprocess.run(argv, input=packed.path.read_bytes(), cwd=unpacked, check=True)
    assert (unpacked / "init").read_bytes() == agent.read_bytes()
    assert os.access(unpacked / "init", os.X_OK)
    listing = (unpacked / "etc/stealtime/modules").read_text().split()
    assert listing == [f"/lib/modules/{name}" for name in packed.modules]
    assert (unpacked / "lib/modules/virtio-rng.ko").read_bytes() == b"virtio-rng.ko.xz", "modules are packed plain"
    assert pack_initramfs(agent, [ModuleWish("virtio_rng")], kernel) == packed
    agent.write_bytes(b"\x7fELF another agent")
    other = pack_initramfs(agent, [ModuleWish("virtio_rng")], kernel)
    assert other.sha256 != packed.sha256
    assert packed.path.exists()


def test_the_same_content_gives_the_same_initramfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = tmp_path / "agent"
    agent.write_bytes(b"\x7fELF agent")
    first = pack_initramfs(agent)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    second = pack_initramfs(agent)
    assert (first.path != second.path, first.sha256) == (True, second.sha256)


def build_slowly(folder: Path) -> tuple[list[str], dict[str, str]]:
    with (folder.parent.parent / "built").open("a") as log:
        log.write("x")
    (folder / "file").write_bytes(bytes(1 << 20))
    return ["file"], {}


def obtain(folder: Path) -> None:
    obtain_entry(folder, build_slowly)


def test_many_processes_build_an_entry_once(tmp_path: Path) -> None:
    folder = tmp_path / "entry"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=obtain, args=(folder,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(20)
    assert [process.exitcode for process in processes] == [0] * 4
    assert (tmp_path / "built").read_text() == "x"
    assert read_entry(folder) is not None


def test_a_build_that_fails_leaves_no_entry(tmp_path: Path) -> None:
    def fail(folder: Path) -> tuple[list[str], dict[str, str]]:
        (folder / "half").write_bytes(b"half")
        raise StealtimeError("no space")

    with pytest.raises(StealtimeError, match="no space"):
        obtain_entry(tmp_path / "entries" / "entry", fail)
    assert [path.name for path in (tmp_path / "entries").iterdir()] == ["entry.lock"]


def test_a_changed_file_is_hashed_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    first = remembered_hash(path)
    assert remembered_hash(path) == first
    path.write_bytes(b"other")
    assert remembered_hash(path) != first
