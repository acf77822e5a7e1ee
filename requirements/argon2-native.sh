#!/bin/sh
# Build argon2-cffi-bindings from its pinned source for this machine's CPU (AVX2, AVX-512) into .venv; called by
# make argon2-native and deploy/Dockerfile. ARGON2_MARCH=x86-64-v3 (or what else gcc -march takes) builds for other CPUs.
# Needs a C compiler and the Python headers; the result runs only on CPUs with the same instructions.
set -u
cd "$(dirname "$0")/.." || exit 1
fail() {
    printf '%s\n' "$*" >&2
    exit 1
}
command -v "${CC:-cc}" >/dev/null 2>&1 ||
    fail "There is no C compiler: install one (Debian: apt install gcc python3-dev) and run make argon2-native again."
pin=$(mktemp) || exit 1
trap 'rm -f "$pin"' EXIT
march=${ARGON2_MARCH:-native}
# The pin and its hashes, those of the source included.
awk '/^argon2-cffi-bindings==/ { on = 1 } on { print } on && !/\\$/ { exit }' requirements/base.txt >"$pin"
printf 'Building %s for -march=%s\n' "$(sed -n '1s/ .*//p' "$pin")" "$march"
said=$(CFLAGS="${CFLAGS:--O3 -march=$march}" .venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --no-input --force-reinstall --no-deps --no-cache-dir --no-binary argon2-cffi-bindings --require-hashes -r "$pin" 2>&1) ||
    fail "argon2-cffi-bindings could not be built ($(printf '%s' "$said" | grep -i error | tail -n 1));" \
        "the wheel stays in use. Does the compiler know -march=$march, and are the Python headers installed" \
        "(Debian: apt install python3-dev)?"
# Built for other CPUs, it may not run here: only what is meant for this one is tried and timed.
[ "$march" != native ] || .venv/bin/python -m ironauth.infrastructure.hashing.argon2_build
