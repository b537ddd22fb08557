"""Programs out of Debian packages, as far as no package has to be fetched for them."""

from pathlib import Path

import pytest

from stealtime.lab.image.debian_programs import copy_into, parse_libraries, parse_resolution
from stealtime.vocabulary.errors import StealtimeError


def test_the_linker_itself_is_no_library_to_place() -> None:
    said = (
        "\tlinux-vdso.so.1 (0x00007ffd)\n"
        "\tlibc.so.6 => /unpacked/lib/libc.so.6 (0x00007f1c)\n"
        "\t/lib64/ld-linux-x86-64.so.2 => /unpacked/lib64/ld-linux-x86-64.so.2 (0x00007f1d)\n"
    )
    assert parse_libraries(said, "it") == {"libc.so.6": Path("/unpacked/lib/libc.so.6")}


def test_a_missing_library_is_named() -> None:
    with pytest.raises(
        StealtimeError, match=r"the appliance cannot be made: no package of it has the library libx265\.so\.199"
    ):
        parse_libraries("\tlibx265.so.199 => not found\n", "the appliance")


@pytest.mark.parametrize("name", ["../outside", "lib/../../outside"])
def test_nothing_is_copied_out_of_the_tree(tmp_path: Path, name: str) -> None:
    source = tmp_path / "source"
    source.write_text("new")
    (tmp_path / "outside").write_text("old")
    with pytest.raises(StealtimeError, match="outside of its tree"):
        copy_into(tmp_path / "tree", name, source)
    with pytest.raises(StealtimeError, match="outside of its tree"):
        copy_into(tmp_path / "tree", str(tmp_path / "outside"), source)
    assert (tmp_path / "outside").read_text() == "old"


def test_the_versions_of_all_packages_are_read() -> None:
    said = "NOTE: a simulation\nInst libc6 (2.36-9 Debian:12 [amd64])\nConf libc6 (2.36-9 Debian:12 [amd64])\n"
    assert parse_resolution(said) == {"libc6": "2.36-9"}
