#!/usr/bin/env bash
# Runs the benchmarks one after the other; each prints its figures, with the spread and this machine's name.
# tools/bench.sh [FOLDER [OPTION...]]: those in benchmarks/FOLDER, each with these options.
set -uo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
folder=benchmarks${1:+/$1}
options=("${@:2}")
failed=()

for program in "$folder"/[a-z]*.py; do
    [[ -e $program ]] || stop "there are no benchmarks in $folder" "they live there, one program a question"
    printf '== %s\n' "$program"
    form=()
    case $program in
        # Their full forms take half an hour and more.
        */equal_runs.py | */different_runs.py) form=(--short) ;;
    esac
    .venv/bin/python "$program" "${form[@]}" "${options[@]}" || failed+=("$program")
done
((${#failed[@]} == 0)) || printf 'a target was missed, or it failed: %s\n' "${failed[*]}" >&2
exit $((${#failed[@]} > 0))
