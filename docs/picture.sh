#!/bin/sh
# Makes docs/report.png, the first screen of the demo's report. Run it in a checkout, after `make env`.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# a relative path, so that the report names no folder of this machine
sample=sample_traces/l1_bound_sglang
.venv/bin/kvpm report $sample/server.log $sample/metrics.prom.gz $sample/client.jsonl.gz --tz UTC \
    --instance l1_bound_sglang=demo -o "$scratch/report.html"
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then
        "$name" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1280,1000 \
            --screenshot="$PWD/docs/report.png" "file://$scratch/report.html" 2>/dev/null
        exit 0
    fi
done
echo "docs/picture.sh: no chromium here" >&2
exit 1
