"""ASCII in place of the characters that our tables and messages use, for terminals and files that know no others."""

# ruff: noqa: RUF001 - that they look like others is what this file is about.

import unicodedata

_FORMS = {
    **dict.fromkeys("µμ", "u"),
    **dict.fromkeys("×✕✖", "x"),
    **dict.fromkeys("─━═╌╍┄┅┈┉╴╶╸╺╼╾‐‑‒–—―−", "-"),
    **dict.fromkeys("│┃║╎╏┆┇┊┋╵╷╹╻╽╿", "|"),
    **dict.fromkeys("·•∙●○◦⋅", "."),
    **dict.fromkeys("‘’‚′", "'"),
    **dict.fromkeys("“”„″«»", '"'),
    **dict.fromkeys("█▇▆▅▄▃▂▁▉▊▋▌▍▎▏▒▓░", "#"),
    "…": "...",
    "→": "->",
    "←": "<-",
    "↑": "^",
    "↓": "v",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "≈": "~",
    "±": "+-",
    "÷": "/",
    "∞": "inf",
    "√": "sqrt",
    "°": " deg",
    "‰": " per mille",
    "✓": "yes",
    "✔": "yes",
    "✗": "no",
    "✘": "no",
    "ß": "ss",
    "€": "EUR",
    "§": "section ",
    "†": "+",
    "‡": "#",
}
_BOXES = range(0x2500, 0x2580)
_BRAILLE = range(0x2800, 0x2900)
"""What spinners are drawn with."""
_SURROGATES = range(0xDC80, 0xDD00)
"""A byte of a file's name that is no UTF-8 (PEP 383)."""


def in_ascii(text: str) -> str:
    """Write a text in ASCII, as far as there is a form of each character; ``?`` stands for what has none."""
    return "".join(character if character.isascii() else _form(character) for character in text)


def _form(character: str) -> str:
    known = _FORMS.get(character)
    if known is not None:
        return known
    code = ord(character)
    if code in _BOXES:
        return "+"
    if code in _BRAILLE:
        return "."
    if code in _SURROGATES:
        return f"\\x{code - 0xDC00:02x}"
    # An accented letter without its accent, a full-width digit as a digit.
    return "".join(part for part in unicodedata.normalize("NFKD", character) if part.isascii()) or "?"
