"""The library that draws the figures, as it is embedded in every report.

plotly.js comes with the Python package ``plotly``, so it is locked with everything else and no file of ours is a copy.
Deflated it takes 1.9 MB of a report as base64 instead of 4.8 MB as text; the page undoes that with the browser's own
``DecompressionStream`` (in all large browsers since May 2023).
"""

import base64
import hashlib
import zlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class EmbeddedScript:
    """A script that the page unpacks and runs."""

    packed: str
    """Base64 of the deflated text."""
    content_hash: str
    """``sha256-...`` for the page's content security policy, so that no other script can run."""


def pack(data: bytes) -> str:
    """Deflate ``data`` (zlib format) and write it as base64."""
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def script_hash(text: str) -> str:
    """Give the source expression of a content security policy that allows just this script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


@cache
def figure_library() -> EmbeddedScript:
    text = files("plotly").joinpath("package_data/plotly.min.js").read_text(encoding="utf-8")
    return EmbeddedScript(pack(text.encode()), script_hash(text))


def figure_library_version() -> str:
    """Give the version of the Python package that plotly.js came with."""
    from importlib.metadata import version

    return version("plotly")
