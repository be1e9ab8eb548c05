#!/bin/sh
# The tests of a live Prometheus server start a real one. Where there is none they skip themselves, and fail with
# CI=true. On a CI machine that lets us (root, apt-get), install it so that they run; anywhere else leave the
# machine alone. The package's own service is not needed, and stopped where installing started it.
set -eu

if command -v prometheus >/dev/null 2>&1 && command -v promtool >/dev/null 2>&1; then
    exit 0
fi

[ "${CI:-}" = true ] || exit 0
[ "$(id -u)" -eq 0 ] || exit 0
command -v apt-get >/dev/null 2>&1 || exit 0

echo "Installing prometheus for the tests of a live server ..."
export DEBIAN_FRONTEND=noninteractive
apt() {
    apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}
if ! { apt update && apt install -y --no-install-recommends prometheus; }; then
    echo "Could not install prometheus; the tests of a live server will fail." >&2
    exit 0
fi
if [ -d /run/systemd/system ]; then
    systemctl disable --now --quiet prometheus || true
fi
