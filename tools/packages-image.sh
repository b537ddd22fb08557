#!/usr/bin/env bash
# Builds dist/packages/stealtime-agent-*.oci.tar: an OCI image from scratch with the static agent of the wheel and
# nothing else, for `podman load`, `ctr images import` or `skopeo copy oci-archive:FILE docker://...`. What runs it
# checks its node.
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
agent=dist/packages/tree/bin/stealtime-agent
version=$("$agent" --version | cut -d' ' -f2)
layout=dist/packages/oci
image="$layout:$version"
# Whoever builds the same commit again gets the same image.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
created=$(date --utc --iso-8601=seconds --date="@$SOURCE_DATE_EPOCH" | sed 's/+00:00$/Z/')

build() {
    rm -rf "$layout" dist/packages/stealtime-agent-*.oci.tar dist/packages/root
    umoci init --layout "$layout"
    umoci new --image "$image"
    # /tmp is for what a check writes, /usr/bin has the agent.
    mkdir -p dist/packages/root/usr/bin dist/packages/root/usr/share/doc/stealtime-agent
    install -m 1777 -d dist/packages/root/tmp
    install -m 755 "$agent" dist/packages/root/usr/bin
    install -m 644 LICENSE dist/packages/root/usr/share/doc/stealtime-agent
    find dist/packages/root -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    umoci insert --image "$image" --history.created "$created" dist/packages/root /
    umoci config --image "$image" --history.created "$created" --created "$created" \
        --os linux --architecture amd64 --config.env PATH=/usr/bin --config.workingdir / --config.user 0 \
        --clear config.entrypoint --config.cmd stealtime-agent --config.cmd check \
        --config.label org.opencontainers.image.title=stealtime-agent \
        --config.label org.opencontainers.image.version="$version" \
        --config.label org.opencontainers.image.licenses=Apache-2.0 \
        --config.label org.opencontainers.image.description="checks whether a node is quiet enough for real-time work"
    umoci gc --layout "$layout"
    tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --file "dist/packages/stealtime-agent-$version.oci.tar" --directory "$layout" .
    rm -rf "$layout" dist/packages/root
}
step "build the image" build
ls dist/packages/*.oci.tar
