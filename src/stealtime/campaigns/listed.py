"""What comes with the studies, in a line each, for help texts and lists: read from its files, and no study is loaded.

Loading them takes half a second, which nobody waits for who asks for help.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module, resources
from typing import Any

_FIRST = "quick"
"""What somebody tries who knows nothing yet."""
_SENTENCE = re.compile(r"(.+?[.?!:])(?:\s|$)", re.DOTALL)


@dataclass(frozen=True)
class ListedCampaign:
    """A builtin campaign."""

    name: str
    study: str
    answers: str
    """The first sentence of its description."""
    description: str
    probes: tuple[str, ...]
    has_short_form: bool


@dataclass(frozen=True)
class ListedFigures:
    """A set of published figures."""

    name: str
    study: str
    citation: str


def listed_campaigns() -> list[ListedCampaign]:
    """Give all builtin campaigns, the one that is the default first."""
    found = [
        ListedCampaign(
            name=name,
            study=study,
            answers=first_sentence(document.get("description", "")),
            description=" ".join(document.get("description", "").split()),
            probes=tuple(dict.fromkeys(cells["probe"] for cells in document["probes"])),
            has_short_form="short" in document,
        )
        for study, name, document in _documents("campaigns")
    ]
    return sorted(found, key=lambda one: (one.name != _FIRST, one.name))


def listed_figures() -> list[ListedFigures]:
    """Give all sets of published figures that ``compare --published`` knows."""
    found = [ListedFigures(name, study, document["citation"]) for study, name, document in _documents("published")]
    return sorted(found, key=lambda one: one.name)


def first_sentence(text: str) -> str:
    """Give the first sentence of a text, on one line."""
    found = _SENTENCE.match(text.strip())
    return " ".join((found[1] if found is not None else text).split()).rstrip(":")


def _documents(folder: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for module in import_module("stealtime.studies").BUILTIN:
        package = module.rpartition(".")[0]
        place = resources.files(package) / folder
        if not place.is_dir():
            continue
        for entry in place.iterdir():
            if entry.name.endswith(".toml"):
                document = tomllib.loads(entry.read_text("utf-8"))
                yield package.rpartition(".")[2], entry.name.removesuffix(".toml"), document
