#!/usr/bin/env bash
# Runs what takes longest, the truth of the instruments in full: of all rings, or with `due` of those alone in which
# something that they judge has changed since they last passed (tests/truth.toml). Notes each ring that passes.
set -uo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
# shellcheck source=tools/rings.sh
source tools/rings.sh
begin_rings
export STEALTIME_TRUTH=1
# What was skipped was not judged: a skip that is not allowed fails the ring, so that nothing is noted of it.
export CI=true

record=(.venv/bin/python tests/rigs/truth_record.py)
rings=$("${record[@]}" "${1:-rings}") || exit
if [[ -z "$rings" ]]; then
    echo "nothing that the truths judge has changed since they passed (tests/truth_record.json)"
    exit 0
fi
echo "changed since these truths last passed:"
"${record[@]}" changed | sed 's/^/    /'
for ring in $rings; do
    ring "$ring" -m "(truth or longer) and not by_request" "tests/$ring"
    mapfile -t again < <(sed -n "s|^\(tests/$ring/.*\) (time [0-9]*)$|\1|p" "$passed_again")
    grep -qx "$ring" "$failures" || "${record[@]}" note "$ring" "${again[@]}" || echo "$ring" >>"$failures"
done
end_rings
