#!/usr/bin/env bash
# Runs all rings: cargo's tests, then pytest's (unit, browser, guest, protect, kvm); one count over both comes last.
set -uo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
status=0

# count WORD FILE: adds up the numbers that stand before WORD.
count() {
    grep -oE "[0-9]+ $1" "$2" | awk '{ sum += $1 } END { print sum + 0 }'
}

step "build the Rust tests" cargo test --workspace --locked --no-run || status=1
cargo test --workspace --locked --quiet --no-fail-fast >"$logs/cargo-test.log" 2>&1 || status=1
grep '^test result: ' "$logs/cargo-test.log" >"$logs/cargo-count.log" || status=1
((status == 0)) || cat "$logs/cargo-test.log"

# The fast rings first: a mistake shows before any machine boots. Nothing is timed in these two, so they share the CPUs.
.venv/bin/pytest tests/browser >"$logs/pytest-browser.log" 2>&1 &
browser=$!
.venv/bin/pytest --numprocesses=2 --dist=loadfile tests/unit 2>&1 | tee "$logs/pytest-unit.log"
((PIPESTATUS[0] == 0)) || status=1
wait "$browser" || status=1
cat "$logs/pytest-browser.log"
# Each with its own closing line, which tells its time. What measures has the machine for itself; hosts that die wait
# for timeouts most of the time, so two of those tests run at a time.
.venv/bin/pytest --durations=30 -m "guest or alone" tests/guest tests/protect 2>&1 | tee "$logs/pytest-guest.log"
((PIPESTATUS[0] == 0)) || status=1
.venv/bin/pytest --durations=30 -m "not alone" --numprocesses=2 --dist=loadgroup tests/protect 2>&1 |
    tee "$logs/pytest-protect.log"
((PIPESTATUS[0] == 0)) || status=1
.venv/bin/pytest tests/kvm 2>&1 | tee "$logs/pytest-kvm.log"
((PIPESTATUS[0] == 0)) || status=1
for ring in unit browser guest protect kvm; do
    tail -n 1 "$logs/pytest-$ring.log"
done >"$logs/pytest-count.log"

echo
printf 'cargo: %d passed, %d failed, %d skipped\n' \
    "$(count passed "$logs/cargo-count.log")" "$(count failed "$logs/cargo-count.log")" \
    "$(count ignored "$logs/cargo-count.log")"
printf 'pytest: %d passed, %d failed, %d skipped\n' \
    "$(count passed "$logs/pytest-count.log")" "$(count '(failed|error)' "$logs/pytest-count.log")" \
    "$(count skipped "$logs/pytest-count.log")"
cat "$logs"/{cargo,pytest}-count.log >"$logs/count.log"
printf 'tests: %d passed, %d failed, %d skipped\n' "$(count passed "$logs/count.log")" \
    "$(count '(failed|error)' "$logs/count.log")" "$(count '(ignored|skipped)' "$logs/count.log")"
exit "$status"
