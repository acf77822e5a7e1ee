#!/bin/sh
# Resolve the requirements of pyproject.toml into the folder $1 (base.txt, otel.txt, dev.txt and audit.txt there are the pins to keep).
# Further arguments go to uv, e.g. --upgrade. One resolution serves every platform and every Python from 3.12 on.
set -eu
cd "$(dirname "$0")/.."
folder=$1
shift
compile() {
    "${BIN:-.venv/bin}/uv" pip compile --quiet --no-config --generate-hashes --universal --no-annotate \
        --python-version 3.12 --custom-compile-command "make requirements" "$@"
}
compile pyproject.toml -o "$folder/base.txt" "$@"
compile --group audit -o "$folder/audit.txt" "$@"
compile pyproject.toml --extra otel -c "$folder/base.txt" -o "$folder/otel.txt" "$@"
compile pyproject.toml --extra otel --group dev -c "$folder/otel.txt" -o "$folder/dev.txt" "$@"
