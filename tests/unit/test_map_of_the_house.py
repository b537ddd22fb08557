"""The map in ``docs/architecture.md`` shows every crate and package, on what each stands, and in which order."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "src/stealtime/studies"
PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")
LAYERS = "A room imports only rooms below it"


def table_below(heading: str) -> list[list[str]]:
    """Give the cells of the rows of the first table below a heading."""
    section = PAGE.split(f"\n{heading}", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return rows[2:]


def floor_plan() -> set[str]:
    """Give the names that ``docs/extending.md`` has for the files and folders of every study."""
    table = (ROOT / "docs/extending.md").read_text("utf-8").split("\n| file or folder | has |\n", 1)[1]
    rows = [line for line in table.split("\n\n", 1)[0].splitlines() if line.startswith("| `")]
    return {name for line in rows for name in names_in(line)} - {"probes]]"}


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([\w/]+)`", cell)


def own_crates_of(manifest: Path) -> set[str]:
    """Give the crates of ours that a crate depends on, tests aside."""
    document = tomllib.loads(manifest.read_text("utf-8"))
    tables = [document, *document.get("target", {}).values()]
    dependencies = [name for table in tables for name in table.get("dependencies", {})]
    return {name.removeprefix("stealtime-") for name in dependencies if name.startswith("stealtime-")}


def test_the_map_has_every_crate_and_what_it_depends_on() -> None:
    crates = {manifest.parent.name: own_crates_of(manifest) for manifest in ROOT.glob("crates/*/Cargo.toml")}
    # Others' crates are named there, too, where they matter.
    shown = {
        names_in(name)[0]: {word for word in re.findall(r"\w+", depends_on) if word in crates}
        for name, _, depends_on in table_below("## Rust")
    }
    assert shown == crates


def test_the_map_has_every_package() -> None:
    source = ROOT / "src/stealtime"
    packages = {
        str(face.parent.relative_to(source))
        for pattern in ("*/__init__.py", "studies/*/__init__.py")
        for face in source.glob(pattern)
    }
    shown = [name for row in table_below("## Python") for name in names_in(row[0])]
    assert len(shown) == len(set(shown))
    modules = {name for name in shown if (source / f"{name}.py").is_file()}
    assert set(shown) == (packages - {"studies"}) | modules


def test_the_map_is_in_the_order_of_who_imports_whom() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["name"] == LAYERS)
    floor_of = {room: -floor for floor, layer in enumerate(layers) for room in re.findall(r"\w+", layer)}
    floors = [floor_of[name.split("/")[0]] for row in table_below("## Python") for name in names_in(row[0])]
    assert floors == sorted(floors, reverse=True)


@pytest.mark.parametrize("folder", [face.parent for face in STUDIES.glob("*/__init__.py")], ids=lambda it: it.name)
def test_a_study_keeps_to_the_floor_plan_and_the_map_names_the_rest(folder: Path) -> None:
    entries = {entry.stem for entry in folder.iterdir() if entry.stem.strip("_") not in {"init", "pycache"}}
    (row,) = [row for row in table_below("## Python") if names_in(row[0]) == [f"studies/{folder.name}"]]
    assert entries >= {"study", "probes", "campaigns"}
    assert entries <= floor_plan() | set(names_in(row[1]))
