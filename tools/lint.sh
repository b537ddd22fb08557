#!/usr/bin/env bash
# Runs every check, also after one has failed, so that one run shows all that is to do.
set -uo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
failed=0

# How imports are sorted depends on where other files are, which the cache does not know.
step "ruff check" .venv/bin/ruff check --no-cache || failed=1
step "ruff format" .venv/bin/ruff format --check || failed=1
step "mypy" .venv/bin/mypy || failed=1
step "import contracts" .venv/bin/lint-imports --no-cache || failed=1
step "cargo fmt" cargo fmt --all --check || failed=1
# As tests are built: set-up has built the macros of others for it (Cargo.toml).
step "cargo clippy" cargo clippy --workspace --all-targets --locked --profile bench -- -D warnings || failed=1
step "mdformat" .venv/bin/mdformat --check README.md CHANGELOG.md CONTRIBUTING.md docs || failed=1
# ruff, rustfmt and mdformat hold the width of code and prose, this step that of everything else.
step "width of comments and scripts" tools/width.sh || failed=1
step "shellcheck" shellcheck --external-sources tools/*.sh contrib/slurm/* .ci/run || failed=1
step "words of the README" tools/words.sh || failed=1
exit "$failed"
