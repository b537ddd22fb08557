"""JSON of others, with what rt-app's own tools let pass: comments, a comma at the end, and a key twice."""

import json
import re
from fractions import Fraction
from typing import Any

from stealtime.schedulability.formats.draft import Draft

_LAX = re.compile(r'("(?:[^"\\]|\\.)*")|/\*.*?\*/|//[^\n]*', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)


class Pairs(list[tuple[str, Any]]):
    """An object of JSON with its keys in order, each as often as it is there."""

    def get(self, key: str) -> Any:
        """Give the last value of a key, as JSON's readers do; None where it is not there."""
        return next((value for name, value in reversed(self) if name == key), None)


def parse_json(draft: Draft, text: str) -> Any:
    """Read JSON: objects as :class:`Pairs`, broken numbers exactly.

    Raises:
        UsageError: It is none.
    """
    bare = _LAST_COMMA.sub(lambda found: found[1] or "", _LAX.sub(lambda found: found[1] or " ", text))
    try:
        return json.loads(bare, object_pairs_hook=Pairs, parse_float=lambda one: draft.number(one.lstrip("-"), one))
    except (ValueError, RecursionError) as error:
        raise draft.refuse(f"it is no JSON: {error}") from None


def number_in(draft: Draft, value: Any, what: str) -> Fraction:
    """Take a number that is not negative.

    Raises:
        UsageError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | Fraction) or value < 0:
        raise draft.refuse(f"{what} is {value!r}, which is no number from 0 on")
    return Fraction(value)


def name_in(value: Any, default: str) -> str:
    return value if isinstance(value, str) and value else default
