#!/bin/sh
# The benchmarks run ripgrep and mawk beside this tool; the other peers are in .venv. Where we may (root, apt-get) install what
# is missing; anywhere else say so: their rows fail, the others are measured all the same.
set -eu

missing=
command -v rg >/dev/null 2>&1 || missing="$missing ripgrep"
command -v mawk >/dev/null 2>&1 || missing="$missing mawk"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Not here, and not to be installed by us:$missing; what they are compared with will be missing." >&2
    exit 0
fi

echo "Installing$missing for the benchmarks ..."
export DEBIAN_FRONTEND=noninteractive
apt() {
    apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}
# $missing is a list
if ! { apt update && apt install -y --no-install-recommends $missing; }; then
    echo "Could not install$missing; what they are compared with will be missing." >&2
fi
