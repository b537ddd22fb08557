"""Writes a JUnit document, whatever the names and messages in it are made of."""

import re
from pathlib import Path

from junitparser import JUnitXml

from stealtime.vocabulary.visible import visible

_NOT_IN_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML document may hold, besides control characters (XML 1.0, production 2)."""


def write_junit_file(document: JUnitXml, path: Path) -> None:
    """Write a document; characters that XML forbids, such as those of a guest's coloured log, are shown by their codes.

    Raises:
        OSError: It cannot be written.
    """
    for element in document._elem.iter():
        if element.text:
            element.text = _allowed(element.text)
        for name, value in element.attrib.items():
            element.attrib[name] = _allowed(value)
    document.write(str(path), pretty=True)


def _allowed(text: str) -> str:
    return _NOT_IN_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", visible(text))
