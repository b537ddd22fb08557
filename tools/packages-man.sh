#!/usr/bin/env bash
# Writes a man page for a program and for each of its commands, from their help texts.
# tools/packages-man.sh PROGRAM FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1 folder=$2
name=$(basename "$program")
version=$("$program" --version | awk '{ print $NF }')
# Help texts are filled to the width of the terminal, and a table of commands is cut at it.
export COLUMNS=1000 TERM=dumb LC_ALL=C
mkdir -p "$folder"

# A line for each command: its name, a tab, what it does.
commands() {
    "$program" --help | awk '
        /^Commands:/ { inside = 1; next }
        inside && /^  [a-z]/ { name = $1; sub(/^ +[a-z-]+ +/, ""); if (name != "help") print name "\t" $0; next }
        inside && !/^ / { inside = 0 }'
}

# page COMMAND PAGE DESCRIPTION SEE-ALSO
page() {
    help2man --no-info --section=1 --manual="stealtime" --source="stealtime $version" --version-string="$version" \
        --name="$3" --include=<(printf '[see also]\n%s\n' "$4") --output="$folder/$2.1" "$1"
    # help2man takes the first word for the name of the program.
    sed -i -e "s/^\.TH [^ ]* /.TH ${2^^} /" -e "/^\.SH NAME/{n;s/^.* \\\\- /${2//-/\\\\-} \\\\- /}" "$folder/$2.1"
}

# first_sentence COMMAND...: of its help text; a list of commands may cut it.
first_sentence() {
    "$@" --help | awk '
        /^Usage/ { next }
        NF { text = text (text == "" ? "" : " ") $0; next }
        text != "" { exit }
        END { gsub(/ +/, " ", text); sub(/^ /, "", text); sub(/[.]( .*)?$/, "", text); print text }'
}

summary=$(first_sentence "$program")
mapfile -t listed < <(commands)
((${#listed[@]})) || { echo "error: $program --help lists no commands" >&2; exit 1; }
also=()
for line in "${listed[@]}"; do
    command=${line%%$'\t'*}
    also+=(".BR $name-$command (1)")
    page "$program $command" "$name-$command" "$(first_sentence "$program" "$command")" ".BR $name (1)"
done
page "$program" "$name" "$summary" "$(printf '%s\n' "${also[@]}")"
