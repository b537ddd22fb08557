"""The Python models of the messages are those that the schema of the Rust types gives."""

import os

from message_models import MADE, make_modules
from schema_shape import stored


def test_the_models_are_those_that_the_schema_gives() -> None:
    for path, text in make_modules(stored("messages.schema.json")).items():
        if "UPDATE_GOLDEN" in os.environ:
            path.write_text(text)
        assert path.read_text() == text, MADE
