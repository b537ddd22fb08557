"""No test program of Rust is left out of `make test`."""

import json

from cargo_tests import other_tests


def test_programs_that_nobody_named_are_in_the_other_half() -> None:
    targets = [
        {"name": "all", "kind": ["test"]},
        {"name": "new", "kind": ["test"]},
        {"name": "stealtime-agent", "kind": ["bin"]},
    ]
    metadata = json.dumps({"packages": [{"targets": targets[:1]}, {"targets": targets[1:]}]})
    assert other_tests(metadata, ["--bins", "--test", "all"]) == ["--test", "new"]
    assert other_tests(metadata, ["--bins"]) == ["--test", "all", "--test", "new"]
