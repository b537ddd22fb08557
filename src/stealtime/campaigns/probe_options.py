"""Options of ``stealtime run`` that are about one probe. ``run -h`` asks for them: nothing here loads a study."""

from dataclasses import dataclass
from importlib import import_module
from typing import Literal


@dataclass(frozen=True)
class ProbeOption:
    """An option that replaces a field in all tables of a probe."""

    probe: str
    field: str
    """Of its table."""
    flags: tuple[str, ...]
    """The first one is its name."""
    takes: Literal["DURATION", "LIST"]
    """A duration in ns, or a list of whole numbers."""
    help: str

    @property
    def parameter(self) -> str:
        """Its name as that of a parameter: ``loop``."""
        return self.flags[0].removeprefix("--").replace("-", "_")


def probe_options() -> tuple[ProbeOption, ...]:
    """Give those that the studies declare, which come with stealtime."""
    modules = (import_module(name) for name in import_module("stealtime.studies").WITH_OPTIONS)
    return tuple(option for module in modules for option in module.OPTIONS)
