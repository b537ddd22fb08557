"""How the templates of the page write numbers and times; the studies' as well."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stealtime.report import notation
from stealtime.report.figure_library import pack

_PAGE = "stealtime.report.page"


@cache
def templates_of(package: str) -> Environment:
    """Give the templates in the folder ``templates`` of a package and of the page, compiled once in a process."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(_PAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        duration=notation.duration,
        quantity=notation.quantity,
        exact_duration=notation.exact_duration,
        moment=notation.moment,
        count=notation.count,
        ratio=notation.ratio,
        percent=notation.percent,
        whole_ns=notation.whole_ns,
        packed_json=_packed_json,
    )
    return templates


def rendered(templates: Environment, name: str, values: Mapping[str, Any]) -> Markup:
    """Render a template; it has escaped what is not its own."""
    return Markup(templates.get_template(name).render(values))  # noqa: S704


def source(templates: Environment, name: str) -> str:
    """Give a file beside the templates as it is."""
    assert templates.loader is not None  # noqa: S101 - given above
    return templates.loader.get_source(templates, name)[0]


def _packed_json(value: Any) -> Markup:
    """Deflate JSON: that of a thousand spikes says the same few words over and over."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(pack(text.encode()))  # noqa: S704 - base64
