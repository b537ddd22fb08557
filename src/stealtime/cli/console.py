"""A console of rich that takes all text literally.

Names come from elsewhere: a thread ``[migration/0]`` is no markup, ``:x:`` is no emoji, and an escape sequence in the
name of a file must not steer the terminal.
"""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from stealtime.vocabulary.visible import is_visible, visible


class PlainConsole(Console):
    """Shows every text as it is; styles are objects of rich."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **kwargs: Any) -> Text:
        return super().render_str(visible(text), **kwargs)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render; what steers the terminal is rich's own alone."""
        for segment in super().render(renderable, options):
            if segment.control or is_visible(segment.text):
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)

    def status(self, status: RenderableType, **kwargs: Any) -> Status:
        """Show that something goes on; a string is no markup here either."""
        return _PlainStatus(_literal(status), console=self, **kwargs)


class _PlainStatus(Status):
    def update(self, status: RenderableType | None = None, **kwargs: Any) -> None:
        super().update(None if status is None else _literal(status), **kwargs)


def _literal(status: RenderableType) -> RenderableType:
    return Text(visible(status)) if isinstance(status, str) else status
