"""What pydantic says of a wrong value, in the words of somebody who wrote a file and knows no Python."""

from typing import Any

from pydantic_core import ErrorDetails

_WORDS = {
    "too_short": "it needs at least {min_length}, and has {actual_length}",
    "too_long": "it may have {max_length} at most, and has {actual_length}",
    "string_too_short": "it must not be empty",
    "string_too_long": "it may have {max_length} characters at most",
    "string_type": 'it must be text, in quotes: "..."',
    "string_pattern_mismatch": "it must be of the form {pattern}",
    "greater_than_equal": "it must be at least {ge}",
    "greater_than": "it must be more than {gt}",
    "less_than_equal": "it must be at most {le}",
    "less_than": "it must be less than {lt}",
    "multiple_of": "it must be a multiple of {multiple_of}",
    "int_type": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_type": "it must be a number",
    "float_parsing": "it must be a number",
    "finite_number": "it must be a finite number",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "list_type": "it must be a list: [...]",
    "tuple_type": "it must be a list: [...]",
    "dict_type": "it must be a table",
    "model_type": "it must be a table",
    "model_attributes_type": "it must be a table",
    "literal_error": "it must be {expected}",
    "enum": "it must be {expected}",
    "none_required": "it must be left out",
}
"""By the type of error (``pydantic_core.core_schema.ErrorType``), with its own figures."""


def plain_message(error: ErrorDetails) -> str:
    """Give the sentence of an error, to stand behind the value that is wrong."""
    words = _WORDS.get(error["type"])
    context: dict[str, Any] = error.get("ctx", {})
    if words is not None:
        try:
            return words.format(**context)
        except KeyError:
            pass  # another version has other figures: its own sentence then
    message = error["msg"].removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]}"
