"""Text from elsewhere, such as the names of threads and files, made harmless for a terminal, JSON and XML."""

import re

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters but for tab and line feed, separators of lines, and what turns the direction of a line."""


def visible(text: str) -> str:
    r"""Write characters that would steer a terminal as Python writes them: the escape character becomes ``\x1b``."""
    return _STEERING.sub(lambda match: _escaped(match[0]), text)


def in_one_line(text: str) -> str:
    """Do as :func:`visible`, with line feeds and tabs, too: for names in lines and tables."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def visible_in_json(document: str) -> str:
    r"""Write them in a JSON document as ``\u009b``: they stand within its strings only, and mean the same there."""
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def is_visible(text: str) -> bool:
    """Tell whether a text has no such character."""
    return _STEERING.search(text) is None


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
