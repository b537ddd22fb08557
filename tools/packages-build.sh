#!/usr/bin/env bash
# `make packages`: builds all of dist/packages, and tries each package as somebody who has only that.
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"

if ! cmp --silent packaging/requirements.txt .tools/packaging/installed; then
    rm -rf .tools/packaging
    step "make an environment for packaging" .tools/uv/bin/uv venv .tools/packaging
    step "install zig and auditwheel" \
        .tools/uv/bin/uv pip install --python .tools/packaging/bin/python --requirement packaging/requirements.txt
    cp packaging/requirements.txt .tools/packaging/installed
fi

tools/packages-wheel.sh
tools/packages-deb.sh
tools/packages-image.sh
exec .venv/bin/pytest tests/packages
