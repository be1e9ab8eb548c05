#!/bin/sh
# The accessibility tests run axe-core. npm puts it into tests/browser/axe/node_modules, which git ignores, at the version
# and hash in package-lock.json there. Without npm, or offline, the tests skip themselves, and fail with CI=true. On a CI
# machine that lets us (root, apt-get), install npm first; anywhere else leave the machine alone.
set -eu

cd "$(dirname "$0")/../tests/browser/axe"
stamp=node_modules/.installed
if [ -f "$stamp" ] && [ ! package-lock.json -nt "$stamp" ]; then
    exit 0
fi

if ! command -v npm >/dev/null 2>&1; then
    [ "${CI:-}" = true ] || exit 0
    [ "$(id -u)" -eq 0 ] || exit 0
    command -v apt-get >/dev/null 2>&1 || exit 0
    echo "Installing npm for the accessibility tests ..."
    export DEBIAN_FRONTEND=noninteractive
    apt() {
        apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" >/dev/null
    }
    if ! { apt update && apt install -y --no-install-recommends npm; }; then
        echo "Could not install npm; the accessibility tests will fail." >&2
        exit 0
    fi
fi

if npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null; then
    touch "$stamp"
else
    echo "Could not install axe-core; the accessibility tests will be skipped, or fail with CI=true." >&2
fi
