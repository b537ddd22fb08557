#!/usr/bin/env bash
# Runs the benchmarks one after the other; each prints its ratios, with the spread and this machine's name.
set -uo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
failed=0

for program in benchmarks/[a-z]*.py; do
    [[ -e $program ]] || stop "there are no benchmarks" "they live in benchmarks/, one program a question"
    printf '== %s\n' "$program"
    .venv/bin/python "$program" || failed=1
done
exit "$failed"
