"""XML of others, read without what XML can do to its reader.

docs/decisions/2026-11-27-formats-of-others.md has why defusedxml.
"""

from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from stealtime.schedulability.formats.draft import Draft


def parse_xml(draft: Draft, text: str) -> Element:
    """Give the root.

    Raises:
        UsageError: It is no XML, or declares entities or fetches other files.
    """
    try:
        root: Element = fromstring(text.encode(), forbid_dtd=False, forbid_entities=True, forbid_external=True)
    except DefusedXmlException as error:
        kind = type(error).__name__
        raise draft.refuse(f"it declares entities or other files ({kind}), which no task set needs") from None
    except ParseError as error:
        raise draft.refuse(f"it is no XML: {error}") from None
    except (LookupError, ValueError) as error:
        # An encoding that is not known, or not that of the file.
        raise draft.refuse(f"it is no XML: {error}") from None
    return root


def tag_of(element: Element) -> str:
    """Give a tag without its name space, in small letters: Cheddar has written it both ways."""
    return element.tag.rsplit("}", 1)[-1].lower() if isinstance(element.tag, str) else ""


def root_tag(text: str) -> str:
    """Guess the root's tag without parsing the file; empty where there is none."""
    rest = text
    while (start := rest.find("<")) >= 0:
        rest = rest[start:]
        if rest.startswith("<!--"):
            rest = rest.partition("-->")[2]
        elif rest.startswith(("<?", "<!")):
            rest = rest.partition(">")[2]
        else:
            name = rest[1:].split(maxsplit=1)[0] if rest[1:].split() else ""
            return name.split(">", 1)[0].strip("/").rsplit(":", 1)[-1].lower()
    return ""
