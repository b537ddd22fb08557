#!/usr/bin/env bash
# Puts uv into .tools/uv: one pinned version, from PyPI, with nothing but Python's own venv. Where that version is on
# PATH, that one is taken: a clone then needs no network for it.
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
version=0.13.9

[[ "$(.tools/uv/bin/uv --version 2>/dev/null)" == "uv $version"* ]] && exit 0

installed=$(command -v uv || true)
if [[ -n $installed && "$("$installed" --version 2>/dev/null)" == "uv $version"* ]]; then
    mkdir -p .tools/uv/bin
    ln -sf "$(readlink -f "$installed")" .tools/uv/bin/uv
    exit 0
fi

command -v python3 >/dev/null || stop "python3 was not found" "apt-get install python3"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    stop "Python 3.11 or newer is needed, and python3 is $(python3 --version)" "put a newer python3 first on PATH"
# Debian keeps the pip that venv installs in a package of its own.
python3 -c 'import ensurepip' 2>/dev/null || tools/packages.sh python

install_uv() {
    rm -rf .tools/uv
    python3 -m venv .tools/uv
    .tools/uv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$version"
}
step "install uv $version" install_uv
