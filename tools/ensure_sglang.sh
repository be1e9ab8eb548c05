#!/bin/sh
# Driving SGLang's own scheduler needs its code, but no GPU and none of its kernels: the wheel is unpacked, not installed,
# and what its scheduler imports goes into an environment of its own, .engines/sglang. Python 3.11, because the wheel is
# built for it; the CPU build of torch is enough. Does nothing where the environment is complete.
set -eu

VERSION=0.5.23
cd "$(dirname "$0")/.."
ENV=.engines/sglang
DONE=$ENV/.complete-$VERSION

if [ -n "${KVPM_SGLANG_PYTHON:-}" ] || [ -e "$DONE" ]; then
    exit 0
fi

PYTHON=${PYTHON311:-python3.11}
if ! command -v "$PYTHON" >/dev/null 2>&1; then
    echo "SGLang $VERSION needs Python 3.11, which is not here; its tests will be skipped. PYTHON311=... names one." >&2
    exit 0
fi

echo "Installing SGLang $VERSION for the tests against its scheduler ..."
"$PYTHON" -m venv --clear "$ENV"
# The versions it was last run with; triton and zmq are the real ones.
"$ENV/bin/pip" install --quiet --disable-pip-version-check \
    torch==2.13.0 triton==3.9.0 transformers==5.24.0 numpy==2.4.6 fastapi==0.165.0 uvicorn==0.54.0 uvloop==0.23.0 \
    aiohttp==3.14.5 python-multipart==0.0.34 orjson==3.13.0 pyzmq==27.3.0 setproctitle==1.3.8 psutil==7.2.2 \
    ipython==9.18.1 pillow==13.0.0 pybase64==1.5.1 msgspec==0.23.0 partial-json-parser==0.2.1.1.post7 dill==0.4.1 \
    interegular==0.3.3 requests==2.34.2 sentencepiece==0.2.3 compressed-tensors==0.20.1 openai==2.8.0 einops==0.8.2 \
    apache-tvm-ffi==0.1.15.post2
"$ENV/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$ENV/wheel" "sglang==$VERSION"
for wheel in "$ENV"/wheel/*.whl; do
    "$ENV/bin/python" -m zipfile -e "$wheel" "$ENV/unpacked"
    rm "$wheel"
done
rmdir "$ENV/wheel"
touch "$DONE"
