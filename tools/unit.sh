#!/usr/bin/env bash
# Runs the unit tests of Python. They write some 30,000 small files: where memory has room they lie there, since to make
# and to remove them on a disk takes longer than many of the tests.
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"

# Without it the tests that need it are skipped, and say so.
tools/otava.sh || true

memory=/dev/shm
if [[ -w $memory && $(stat --file-system --format=%T $memory) == tmpfs ]]; then
    export PYTEST_DEBUG_TEMPROOT=$memory
fi
exec .venv/bin/pytest --durations=10 --numprocesses=2 --dist=loadfile tests/unit
