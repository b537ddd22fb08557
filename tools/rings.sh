# shellcheck shell=bash disable=SC2154
# Sourced by test.sh and truth.sh after steps.sh: runs rings of pytest with machines, and counts over all rings.

# A line for each: rings that failed, and tests that passed when they ran again. Files, since rings run side by side.
failures=$logs/failures
passed_again=$logs/passed-again

# A line for each part of the whole: how long it took.
phases=$logs/phases

# phase NAME: names what follows, and notes what went before.
phase() {
    [[ -z ${phase_name:-} ]] || printf '%4d s  %s\n' $((SECONDS - phase_begun_s)) "$phase_name" >>"$phases"
    phase_name=$1 phase_begun_s=$SECONDS
}

# begin_rings: forgets what other runs have left.
begin_rings() {
    mkdir -p "$logs"
    : >"$phases"
    rm -f "$logs"/pytest-*.log "$logs"/cargo-*.log "$logs"/durations-*
    : >"$failures"
    : >"$passed_again"
}

# count WORD FILE: adds up the numbers that stand before WORD.
count() {
    grep -oE "[0-9]+ $1" "$2" | awk '{ sum += $1 } END { print sum + 0 }'
}

# failed RING: the ids of the tests that failed in it.
failed() {
    .venv/bin/python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' \
        "$logs/cache-$1/v/cache/lastfailed"
}

# Of one ring; more are no accident. But one machine is shared by all that ask of KVM, and one page by all that look at
# it: they fail together. In the ring guest, 140 truths measure a host whose own host takes memory and CPU from it.
declare -A most_again=([beside]=5 [guest]=8 [traced]=2 [protect]=5 [kvm]=40 [browser]=20 [wheel]=5 [unit]=0)
# The only layer that repeats anything: no test and no rig measures again by itself.
repetitions=2
# What is lost once is lost: nothing that protects has a second chance, unless the emulated machine itself has ended:
# its kernel panics now and then (tests/kvm/first_level.py).
never_again=protect
machine_ended="first level said 'good-bye'"

# ring NAME ARGUMENTS...: runs a ring with machines. On a host that shares its own with others, figures now and then
# break a rule that is sound: what fails runs again, alone and on machines of its own, and is named at the end.
ring() {
    local name=$1 code time again
    shift
    rm -rf "$logs/cache-$name"
    .venv/bin/pytest -o "cache_dir=$PWD/$logs/cache-$name" --durations=10 "$@" 2>&1 | tee "$logs/pytest-$name.log"
    code=${PIPESTATUS[0]}
    ((code != 0)) || return 0
    # What runs again would not show it.
    ! grep -q '^error: .* may not be skipped' "$logs/pytest-$name.log" || echo "$name" >>"$failures"
    for ((time = 1; time <= repetitions; time++)); do
        # Without a failed test it ended for another reason.
        mapfile -t again < <(((code != 1)) || failed "$name")
        if ((${#again[@]} == 0 || ${#again[@]} > most_again[$name])) ||
            grep -E '^(FAILED|ERROR) ' "$logs/pytest-$name.log" | grep "$never_again" | grep -qv "$machine_ended"; then
            break
        fi
        printf '\nfailed in the ring %s, and runs again (%d of %d times at most):\n' "$name" "$time" "$repetitions"
        printf '    %s\n' "${again[@]}"
        # What runs again writes the log anew.
        grep -E '^[0-9.]+s (call|setup|teardown) ' "$logs/pytest-$name.log" >>"$logs/durations-$name"
        # Counted as the last time says.
        tail -n 1 "$logs/pytest-$name.log" | sed -E 's/[0-9]+ (failed|errors?),? ?//g' >>"$logs/pytest-$name-first.log"
        .venv/bin/pytest -o "cache_dir=$PWD/$logs/cache-$name" "${again[@]}" 2>&1 | tee "$logs/pytest-$name.log"
        code=${PIPESTATUS[0]}
        # What passed now is named also where others failed once more.
        if ((code <= 1)); then
            printf '%s\n' "${again[@]}" | grep -vxFf <(((code == 0)) || failed "$name") |
                sed "s/$/ (time $((time + 1)))/" >>"$passed_again"
        fi
        ((code != 0)) || return 0
    done
    echo "$name" >>"$failures"
}

# count_of PROGRAM FILE SKIPPED: a line with what FILE counts.
count_of() {
    printf '%s: %d passed, %d failed, %d skipped\n' "$1" \
        "$(count passed "$2")" "$(count '(failed|error)' "$2")" "$(count "$3" "$2")"
}

# end_rings: prints what ran again, what took longest and the counts; its status tells whether all is well.
end_rings() {
    local log
    phase "count"
    for log in "$logs"/pytest-*.log; do
        case $log in
            # Only closing lines are in there.
            *-first.log) cat "$log" ;;
            *) tail -n 1 "$log" ;;
        esac
    done >"$logs/pytest-count"
    grep -hs '^test result: ' "$logs"/cargo-*.log >"$logs/cargo-count"
    cat "$logs/cargo-count" "$logs/pytest-count" >"$logs/count"
    printf '\nthe ten slowest (Rust: a program with all its tests):\n'
    {
        grep -hE '^[0-9.]+s (call|setup|teardown) ' "$logs"/pytest-*.log "$logs"/durations-* 2>/dev/null
        awk '/^ +Running / { program = $2 == "unittests" ? "unittests " $NF : $2 }
             / finished in / { print $NF, "cargo", program }' "$logs"/cargo-*.log 2>/dev/null
    } | sort -rn | head -n 10
    printf '\nhow long it took:\n'
    cat "$phases"
    [[ ! -s "$passed_again" ]] || sed 's/^/failed, and passed when run again: /' "$passed_again"
    [[ ! -s "$logs/cargo-count" ]] || count_of cargo "$logs/cargo-count" ignored
    count_of pytest "$logs/pytest-count" skipped
    count_of tests "$logs/count" '(ignored|skipped)'
    [[ ! -s "$failures" ]] || printf 'failed: %s\n' "$(sort -u "$failures" | paste -s -d ' ')" >&2
    [[ ! -s "$failures" ]]
}
