"""The part of the page about a study that declares its figures: whatever it draws, then its tables."""

from collections.abc import Sequence

from markupsafe import Markup

from stealtime.report.catalogue.cell import CatalogueCell
from stealtime.report.catalogue.rows import remarks_of, tables_of
from stealtime.report.catalogue.shown import ShownStudy
from stealtime.report.page.section import Section
from stealtime.report.page.tables import folded_html_of, html_of
from stealtime.report.page.templates import rendered, templates_of


def section_of(study: ShownStudy, cells: Sequence[CatalogueCell]) -> Section:
    """Draw the cells of a study; nothing but its question where there are none."""
    catalogue = study.catalogue
    if not cells:
        return Section(question=catalogue.question, links=(), body=Markup())
    _, names = study.names(cells)
    pictures = study.pictures(cells)
    is_drawn = bool(pictures.body.strip() or pictures.further)
    values = {
        "identity": study.name,
        "title": catalogue.title,
        "tables": tables_of(study, cells),
        # Without a picture the tables are what there is to see.
        "html_of": folded_html_of if is_drawn else html_of,
        "is_folded": is_drawn,
        "remarks": [*remarks_of(study, cells), *_limits(cells, names)],
        "pictures": pictures.body,
    }
    own = rendered(templates_of("stealtime.report.catalogue"), "section.html.jinja", values)
    # A picture comes before tables, also where a section of its own has the only ones.
    parts = (own, pictures.further) if pictures.body.strip() else (pictures.further, own)
    return Section(
        question=catalogue.question,
        links=((study.name, catalogue.title), *pictures.links),
        body=Markup().join(parts),
        style=pictures.style,
        contents=catalogue.contents,
    )


def _limits(cells: Sequence[CatalogueCell], names: Sequence[str]) -> list[str]:
    """Say each limit once, with the cells that it limits."""
    limited: dict[str, list[str]] = {}
    for cell, name in zip(cells, names, strict=True):
        for text in cell.limits:
            limited.setdefault(text, []).append(name)
    return [f"{'all' if len(cells) == len(named) > 1 else ', '.join(named)}: {text}" for text, named in limited.items()]
