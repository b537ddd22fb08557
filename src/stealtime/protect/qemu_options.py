"""The words of a QEMU command line: its options, and what is in their values.

A value is ``key=value,key=value``, where ``,,`` is a comma, the first key may be left out, and a key alone means
``on`` (QEMU, docs/devel/qapi-code-gen and ``util/keyval.c``); or it is a JSON object.
"""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

_FLAGS = frozenset(
    {
        *("S", "daemonize", "enable-kvm", "no-acpi", "no-fd-bootchk", "no-hpet", "no-reboot", "no-shutdown"),
        *("no-user-config", "nodefaults", "nographic", "only-migratable", "snapshot", "usb", "full-screen", "s"),
    }
)
"""The options without a value."""

Values = dict[str, Any]


def options_of(text: str) -> Iterator[tuple[str, str]]:
    """Give each option of a command line without its dash, and its value.

    Raises:
        ValueError: It is no command line of QEMU; why, in a sentence.
    """
    try:
        # Programs print one option a line, with a backslash at its end.
        words = shlex.split(re.sub(r"\\\r?\n", " ", text))
    except ValueError as error:
        raise ValueError(f"it cannot be split into words: {error}") from None
    if not words or words[0].startswith("-"):
        raise ValueError("it does not begin with a program")
    rest = iter(words[1:])
    for word in rest:
        name = word.removeprefix("-").removeprefix("-")
        if not word.startswith("-") or not name:
            raise ValueError(f"{word!r} is no option; a disk image is named by -drive")
        if name in _FLAGS:
            yield name, ""
            continue
        value = next(rest, None)
        if value is None:
            raise ValueError(f"-{name} has no value")
        yield name, value


def values_of(text: str, first_key: str) -> Values:
    """Give what a value says, by key.

    Args:
        text: The value.
        first_key: What the first one is that names no key.

    Raises:
        ValueError: It is a JSON text that is no object.
    """
    if text.lstrip().startswith("{"):
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{text[:60]!r} is no JSON: {error}") from None
        return dict(values)
    found: Values = {}
    for number, part in enumerate(text.replace(",,", "\0").split(",")):
        key, is_given, value = part.replace("\0", ",").partition("=")
        if is_given:
            found[key] = value
        elif number == 0:
            found[first_key] = key
        else:
            found[key] = "on"
    return found


def nested(values: Values) -> Values:
    """Give values whose keys have dots as objects in objects, as JSON has them."""
    found: Values = {}
    for key, value in values.items():
        *folders, last = key.split(".")
        place = found
        for folder in folders:
            inner = place.setdefault(folder, {})
            place = inner if isinstance(inner, dict) else {}
        place[last] = value
    return found


def is_on(values: Values, key: str) -> bool:
    return values.get(key) in (True, "on", "yes", "true")
