#!/usr/bin/env bash
# Builds dist/packages/*.deb of agent, replicator and exporter from the files of the wheel beside them
# (tools/packages-wheel.sh).
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
tree=$PWD/dist/packages/tree
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

unpack() {
    rm -rf "$tree"
    mkdir -p "$tree"/{bin,exporter,lib,units,wheel}
    .tools/uv/bin/uv run --no-project python -m zipfile -e dist/packages/stealtime-*.whl "$tree/wheel"
    install -m 755 "$tree"/wheel/stealtime-*.data/scripts/stealtime-{agent,replicator} "$tree/bin"
    install -m 644 "$tree"/wheel/stealtime/protect/libstealtime_pagetrack*.so "$tree/lib/libstealtime_pagetrack.so"
    install -m 644 src/stealtime/capacity/exporter/{alerts.yml,grafana.json} "$tree/exporter"
}

# All units of the tool, for a `stealtime` that lies where systemd looks for programs (such as /usr/local/bin); those of
# protection with replicator and library of this package.
units() {
    local unit
    for unit in src/stealtime/*/units/*.service; do
        sed -e 's|@STEALTIME@|stealtime|' -e '/^\[Service\]/a\
Environment=STEALTIME_REPLICATOR=/usr/bin/stealtime-replicator\
Environment=STEALTIME_PAGETRACK=/usr/lib/stealtime/libstealtime_pagetrack.so' \
            "$unit" >"$tree/units/$(basename "$unit")"
    done
    sed 's|@STEALTIME@|stealtime|' src/stealtime/capacity/exporter/stealtime-exporter.service \
        >"$tree/units/stealtime-exporter.service"
}

man_pages() {
    tools/packages-man.sh "$tree/bin/stealtime-agent" "$tree/man"
    tools/packages-man.sh "$tree/bin/stealtime-replicator" "$tree/man"
    tools/packages-man.sh .venv/bin/stealtime dist/packages/man
}

# Debian's form, which refers to ours.
changelog() {
    local version
    version=$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
    printf 'stealtime (%s) unstable; urgency=medium\n\n' "$version"
    printf '  * CHANGELOG.md of the source has what is new.\n\n'
    printf ' -- %s  %s\n' "stealtime maintainers <maintainers@stealtime.invalid>" \
        "$(date -Ru --date="@$SOURCE_DATE_EPOCH")"
}

build() {
    cp -r packaging/debian "$tree"
    changelog >"$tree/debian/changelog"
    (cd "$tree" && dpkg-buildpackage --build=binary --no-sign)
    rm -f dist/packages/*.{buildinfo,changes}
}

step "unpack the wheel" unpack
step "make units" units
step "make man pages" man_pages
rm -f dist/packages/*.deb
step "build the debs" build
ls dist/packages/*.deb
