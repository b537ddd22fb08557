#!/usr/bin/env bash
# Builds dist/packages/stealtime-exporter_*_all.deb: unit, alerts and dashboard for a `stealtime` that comes as a wheel.
# By dpkg-deb, because cargo-deb packs what a crate builds, and nothing is built here.
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
package=stealtime-exporter
version=$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
data=src/stealtime/capacity/exporter
tree=$PWD/dist/packages/tree/$package
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

changelog() {
    printf '%s (%s-1) unstable; urgency=medium\n\n' $package "$version"
    printf '  * stealtime %s: CHANGELOG.md of the source has what is new.\n\n' "$version"
    printf ' -- %s  %s\n' "stealtime maintainers <maintainers@stealtime.invalid>" \
        "$(date -Ru --date="@$SOURCE_DATE_EPOCH")"
}

fill() {
    rm -rf "$tree"
    install -d "$tree"/DEBIAN "$tree"/usr/lib/systemd/system "$tree/usr/share/$package" "$tree/usr/share/doc/$package"
    sed 's|@STEALTIME@|stealtime|' $data/$package.service >"$tree/usr/lib/systemd/system/$package.service"
    install -m 644 $data/alerts.yml $data/grafana.json "$tree/usr/share/$package"
    install -m 644 packaging/copyright "$tree/usr/share/doc/$package/copyright"
    changelog | gzip -9n >"$tree/usr/share/doc/$package/changelog.Debian.gz"
    install -D -m 644 packaging/lintian-overrides-exporter "$tree/usr/share/lintian/overrides/$package"
    cat >"$tree/DEBIAN/control" <<CONTROL
Package: $package
Version: $version-1
Architecture: all
Maintainer: stealtime maintainers <maintainers@stealtime.invalid>
Section: admin
Priority: optional
Suggests: prometheus
Description: figures of virtual machines for Prometheus: unit, alerts, dashboard
 The unit of systemd that serves what this host's virtual machines run and
 wait, with rules that alert by it and a dashboard for Grafana. The command
 stealtime itself, which the unit calls, comes as a Python wheel.
CONTROL
    # systemd learns of the unit and forgets it; nothing is enabled or started before somebody says where to listen.
    for script in postinst postrm; do
        printf '%s\n' '#!/bin/sh' 'set -e' 'if [ -d /run/systemd/system ]; then' \
            '    systemctl --system daemon-reload >/dev/null || true' 'fi' >"$tree/DEBIAN/$script"
        chmod 755 "$tree/DEBIAN/$script"
    done
    find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

build() {
    rm -f dist/packages/${package}_*.deb
    dpkg-deb --root-owner-group --build "$tree" dist/packages
}

step "fill the deb of $package" fill
step "build the deb of $package" build
