#!/usr/bin/env bash
# Runs all rings: pytest's (unit, browser, kvm), cargo's tests, then guest and protect; one count over all comes last.
set -uo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
status=0

# count WORD FILE: adds up the numbers that stand before WORD.
count() {
    grep -oE "[0-9]+ $1" "$2" | awk '{ sum += $1 } END { print sum + 0 }'
}

# failed RING: the ids of the tests that failed in it.
failed() {
    .venv/bin/python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' \
        "$logs/cache-$1/v/cache/lastfailed"
}

# Of one ring; more are no accident. But one machine is shared by all that ask of KVM, and they fail together.
declare -A most_again=([guest]=5 [protect]=5 [kvm]=40)
# The only layer that repeats anything: no test and no rig measures again by itself.
repetitions=2
# What is lost once is lost: nothing that protects has a second chance.
never_again=protect
passed_again=()

# ring NAME ARGUMENTS...: runs a ring with machines. On a host that shares its own with others, figures now and then
# break a rule that is sound: what fails runs again, alone and on machines of its own, and is named at the end.
ring() {
    local name=$1 code time again
    shift
    rm -rf "$logs/cache-$name"
    .venv/bin/pytest -o "cache_dir=$PWD/$logs/cache-$name" "$@" 2>&1 | tee "$logs/pytest-$name.log"
    code=${PIPESTATUS[0]}
    ((code != 0)) || return 0
    # What runs again would not show it.
    ! grep -q '^error: .* may not be skipped' "$logs/pytest-$name.log" || status=1
    for ((time = 1; time <= repetitions; time++)); do
        # Without a failed test it ended for another reason.
        mapfile -t again < <(((code != 1)) || failed "$name")
        if ((${#again[@]} == 0 || ${#again[@]} > most_again[$name])) || grep -q "$never_again" <<<"${again[*]}"; then
            break
        fi
        printf '\nfailed in the ring %s, and runs again (%d of %d times at most):\n' "$name" "$time" "$repetitions"
        printf '    %s\n' "${again[@]}"
        # Counted as the last time says.
        tail -n 1 "$logs/pytest-$name.log" | sed -E 's/[0-9]+ (failed|errors?),? ?//g' >>"$logs/pytest-$name-first.log"
        .venv/bin/pytest -o "cache_dir=$PWD/$logs/cache-$name" "${again[@]}" 2>&1 | tee "$logs/pytest-$name.log"
        code=${PIPESTATUS[0]}
        if ((code == 0)); then
            passed_again+=("${again[@]/%/ (time $((time + 1)))}")
            return 0
        fi
    done
    status=1
}

mkdir -p "$logs"
rm -f "$logs"/pytest-*-first.log
# The fast rings first: a mistake shows before any machine boots. Nothing is timed in these two, so they share the CPUs.
.venv/bin/pytest tests/browser >"$logs/pytest-browser.log" 2>&1 &
browser=$!
.venv/bin/pytest --numprocesses=2 --dist=loadfile tests/unit 2>&1 | tee "$logs/pytest-unit.log"
((PIPESTATUS[0] == 0)) || status=1
wait "$browser" || status=1
cat "$logs/pytest-browser.log"
# The times of machines under KVM mean nothing here, and they leave half of both CPUs idle: Rust's tests are built
# beside them, in time that nobody else wants. The step then says why that failed, or finds nothing to do.
chrt --idle 0 cargo test --workspace --locked --no-run >/dev/null 2>&1 &
building=$!
ring kvm tests/kvm
wait "$building"
step "build the Rust tests" cargo test --workspace --locked --no-run || status=1
if ! cargo test --workspace --locked --no-fail-fast -- --show-output >"$logs/cargo-test.log" 2>&1; then
    status=1
    cat "$logs/cargo-test.log"
fi
.venv/bin/python tests/rigs/skips.py "$logs/cargo-test.log" || status=1
# Those that make network namespaces.
if ((EUID == 0)); then
    cargo test --locked --package stealtime-outputhold --test relay -- --ignored 2>&1 | tee -a "$logs/cargo-test.log"
    ((PIPESTATUS[0] == 0)) || status=1
fi
grep '^test result: ' "$logs/cargo-test.log" >"$logs/cargo-count.log" || status=1

# Each with its own closing line, which tells its time. What measures has the machine for itself; hosts that die wait
# for timeouts most of the time, so two of those tests run at a time.
ring guest --durations=30 -m "guest or alone" tests/guest tests/protect
ring protect --durations=30 -m "not alone" --numprocesses=2 --dist=loadfile tests/protect
for ring in unit browser guest protect kvm; do
    cat "$logs/pytest-$ring-first.log" 2>/dev/null
    tail -n 1 "$logs/pytest-$ring.log"
done >"$logs/pytest-count.log"

echo
((${#passed_again[@]} == 0)) || printf 'failed, and passed when run again: %s\n' "${passed_again[@]}"
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
