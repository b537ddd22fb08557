#!/usr/bin/env bash
# Runs what takes longest, the truth of the instruments in full: of all rings, or with `due` of those alone in which
# something that they judge has changed since they last passed (tests/truth.toml). Notes each ring that passes.
# A ring that would end after TRUTH_MINUTES, judged by how long it last took, is not begun, and named as not judged.
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
not_judged=()
for ring in $rings; do
    lasts_min=$("${record[@]}" minutes "$ring")
    if [[ -n ${TRUTH_MINUTES:-} ]] && ((SECONDS / 60 + lasts_min > TRUTH_MINUTES)); then
        not_judged+=("$ring: it last took $lasts_min min, and $((TRUTH_MINUTES - SECONDS / 60)) are left")
        continue
    fi
    phase "truths of the ring $ring"
    begun_s=$SECONDS
    ring "$ring" -m "(truth or longer) and not by_request" "tests/$ring"
    took_min=$(((SECONDS - begun_s + 59) / 60))
    mapfile -t again < <(sed -n "s|^\(tests/$ring/.*\) (time [0-9]*)$|\1|p" "$passed_again")
    grep -qx "$ring" "$failures" || "${record[@]}" note "$ring" "$took_min" "${again[@]}" || echo "$ring" >>"$failures"
done
status=0
((${#not_judged[@]} == $(wc -w <<<"$rings"))) || end_rings || status=$?
((${#not_judged[@]} == 0)) || printf 'truths due and not judged, %s\n' "${not_judged[@]}" >&2
exit "$status"
