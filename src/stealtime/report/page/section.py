"""What a study puts into the page of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup


@dataclass(frozen=True)
class Pictures:
    """What a study draws above its tables."""

    body: Markup = field(default_factory=Markup)
    further: Markup = field(default_factory=Markup)
    """Sections of their own."""
    links: tuple[tuple[str, str], ...] = ()
    """To them, as in ``Section``."""
    style: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page. ``Markup`` is put in as it is, other text is escaped."""

    question: str
    """That it answers: the heading of a page that has no other section."""
    links: tuple[tuple[str, str], ...]
    """Of the table of contents: the id that each points to, and its words."""
    body: Markup
    navigation: str = ""
    """What else stands in the head of the page."""
    style: str = ""
    script: str = ""
    """Runs when the page is loaded; what it reads is ``embedded`` and ``attachments``."""
    embedded: Mapping[str, Any] = field(default_factory=dict)
    attachments: str = ""
    """Elements that nobody sees, such as packed samples."""
    draws_figures: bool = False
    """Whether its script needs the library of figures."""
    contents: str | None = None
    """What of the run's samples is in the file, for those who want more."""
