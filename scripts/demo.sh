#!/usr/bin/env bash
# The first command on a fresh machine: set everything up, then run DirectML operators on a real picture.
# More arguments go to `dmlvk run`, for example: scripts/demo.sh --device llvmpipe --timing
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

MODEL=examples/color_splash.json

scripts/setup.sh
printf '\n$ .venv/bin/dmlvk run %s\n' "$MODEL${*:+ $*}"
exec .venv/bin/dmlvk run "$MODEL" "$@"
