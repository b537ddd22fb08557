"""Options of a command in groups: its function takes an object for each group, not each option by itself."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any


class OptionGroup:
    """Options that belong together: the parameters of its constructor, written as those of a command."""


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes the options of its groups, in their order."""
    taken = inspect.signature(command).parameters
    groups = {name: one.annotation for name, one in taken.items() if _is_group(one.annotation)}
    options = {name: inspect.signature(group).parameters for name, group in groups.items()}

    @wraps(command)
    def taking_each(**values: Any) -> None:
        made = {name: group(**{one: values.pop(one) for one in options[name]}) for name, group in groups.items()}
        command(**made, **values)

    each = [option for name, one in taken.items() for option in (options[name].values() if name in groups else (one,))]
    named = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in each]
    taking_each.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    return taking_each


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, OptionGroup)
