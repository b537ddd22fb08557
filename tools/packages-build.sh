#!/usr/bin/env bash
# `make packages`: builds all of dist/packages, and tries each package as somebody who has only that.
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
cargo_deb=3.8.0

if ! cmp --silent packaging/requirements.txt .tools/packaging/installed; then
    rm -rf .tools/packaging
    step "make an environment for packaging" .tools/uv/bin/uv venv .tools/packaging
    step "install zig and auditwheel" \
        .tools/uv/bin/uv pip install --python .tools/packaging/bin/python --requirement packaging/requirements.txt
    cp packaging/requirements.txt .tools/packaging/installed
fi
[[ "$(.tools/cargo/bin/cargo-deb --version 2>/dev/null)" == "$cargo_deb" ]] ||
    step "install cargo-deb" cargo install --quiet --locked --root .tools/cargo "cargo-deb@$cargo_deb"

tools/packages-wheel.sh
tools/packages-deb.sh
tools/packages-exporter.sh
tools/packages-image.sh
exec .venv/bin/pytest tests/packages
