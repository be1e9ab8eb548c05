#!/bin/sh
# The browser tests drive Chromium. Where there is none they skip themselves, and fail with CI=true. On a CI
# machine that lets us (root, apt-get), install it so that they run; anywhere else leave the machine alone.
set -eu

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then
        exit 0
    fi
done

[ "${CI:-}" = true ] || exit 0
[ "$(id -u)" -eq 0 ] || exit 0
command -v apt-get >/dev/null 2>&1 || exit 0

echo "Installing chromium for the browser tests ..."
export DEBIAN_FRONTEND=noninteractive
apt() {
    apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}
if ! { apt update && apt install -y chromium; }; then
    echo "Could not install chromium; the browser tests will fail." >&2
fi
