#!/usr/bin/env bash
# Puts Apache Otava into .tools/otava, in an environment of its own: it pins an old numpy. Tests look for changes with
# it; without it they are skipped, as on a machine that reaches no registry and has never had it.
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
version=0.8.0

[[ ! -x .tools/otava/bin/otava || "$(cat .tools/otava/version 2>/dev/null)" != "$version" ]] || exit 0
tools/uv.sh

install_otava() {
    rm -rf .tools/otava
    .tools/uv/bin/uv venv --python .venv/bin/python .tools/otava
    uv_or_cached pip install --python .tools/otava/bin/python "apache-otava==$version"
    echo "$version" >.tools/otava/version
}
step "install Apache Otava $version" install_otava
