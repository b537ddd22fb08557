"""Whether a registry of Python packages is reached."""

import subprocess
from pathlib import Path


def is_registry_reached(uv: Path) -> bool:
    """Ask for a small package anew, whatever uv's cache has."""
    asked = [str(uv), "pip", "compile", "--quiet", "--refresh", "-"]
    return subprocess.run(asked, input="setuptools-rust", text=True, capture_output=True, check=False).returncode == 0
