"""Options that were called otherwise: what somebody has in a script goes on working, and no help shows it.

A name means one thing: `-o/--output` is what is written, `--timeout` how long something is waited for.
"""

from collections.abc import Mapping, Sequence

_OF_RUNS = {"--out": "--runs"}
_OLD: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("run", "ls", "show", "report", "compare", "export"), _OF_RUNS),
    "blackout": {"--wait": "--timeout"},
}
"""By command: the earlier name of an option, and today's."""
_END_OF_OPTIONS = "--"


def in_todays_words(arguments: Sequence[str]) -> list[str]:
    """Give the arguments of a command line with options by the names that they have now."""
    old = _OLD.get(arguments[0], {}) if arguments else {}
    if not old:
        return list(arguments)
    end = arguments.index(_END_OF_OPTIONS) if _END_OF_OPTIONS in arguments else len(arguments)
    told = []
    for argument in arguments[:end]:
        name, separator, value = argument.partition("=")
        told.append(f"{old.get(name, name)}{separator}{value}")
    return [*told, *arguments[end:]]
