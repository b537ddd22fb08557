#!/usr/bin/env bash
# Runs every check, also after one has failed, so that one run shows all that is to do.
set -uo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
failed=0

step "ruff check" .venv/bin/ruff check || failed=1
step "ruff format" .venv/bin/ruff format --check || failed=1
step "mypy" .venv/bin/mypy || failed=1
step "import contracts" .venv/bin/lint-imports --no-cache || failed=1
step "cargo fmt" cargo fmt --all --check || failed=1
step "cargo clippy" cargo clippy --workspace --all-targets --locked -- -D warnings || failed=1
step "shellcheck" shellcheck --external-sources tools/*.sh .ci/run || failed=1
exit "$failed"
