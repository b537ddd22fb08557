"""Which test programs of Rust are in no other selection: ``cargo metadata | cargo_tests.py --test all ...``.

Prints a word a line, as cargo takes them: no test program can be forgotten, whoever adds one.
"""

import json
import sys


def other_tests(metadata: str, selected: list[str]) -> list[str]:
    """Give cargo's arguments for every test program that ``selected`` does not name."""
    targets = [target for package in json.loads(metadata)["packages"] for target in package["targets"]]
    names = {target["name"] for target in targets if target["kind"] == ["test"]} - set(selected)
    return [word for name in sorted(names) for word in ("--test", name)]


if __name__ == "__main__":
    sys.stdout.writelines(f"{word}\n" for word in other_tests(sys.stdin.read(), sys.argv[1:]))
