"""Apache Otava as ``tools/otava.sh`` installs it, or another one that is named or on the path."""

import os
from pathlib import Path

from stealtime.site.change_points import find_otava

_OWN = Path(__file__).parents[2] / ".tools/otava/bin/otava"


def installed_otava() -> str | None:
    """Give the program; None where there is none."""
    return find_otava(os.environ) or (str(_OWN) if _OWN.exists() else None)
