"""Tables of words on the page: the same rows as in the terminal."""

from markupsafe import Markup

from stealtime.report.page.templates import rendered, templates_of
from stealtime.report.plain_table import TableOfWords


def html_of(table: TableOfWords, name: str | None = None) -> Markup:
    """Draw a table without its title, which stands above it or is clear from where it stands.

    Args:
        table: What is drawn.
        name: Its name for those who do not see it, where several have the same title.
    """
    values = {"table": table, "name": name or table.title, "folded": False}
    return rendered(templates_of("stealtime.report.page"), "table_of_words.html.jinja", values)


def folded_html_of(table: TableOfWords, name: str | None = None) -> Markup:
    """Draw a table folded away below its title: what a picture above it shows already, in figures. Print unfolds it."""
    values = {"table": table, "name": name or table.title, "folded": True}
    return rendered(templates_of("stealtime.report.page"), "table_of_words.html.jinja", values)
