#!/bin/sh
# Make .venv and install requirements/$1.txt into it ("base", "otel" for traces as well, or "dev"), only when something
# changed; "audit" goes into .venv-audit, because tools that look at the requirements bring their own.
# Every failure is one line that ends with the remedy. PYTHON=/path names the interpreter of a new .venv. What is installed
# is public, and on a server another user runs it: readable for all whatever the umask is, writable for its owner alone.
set -u
umask 022
cd "$(dirname "$0")/.." || exit 1
kind=${1:-base}
venv=.venv
[ "$kind" != audit ] || venv=.venv-audit
wanted=requirements/$kind.txt
stamp=$venv/.installed-$kind.txt # the copy of the file that was installed last

say() { printf '%s\n' "$*"; }
fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# The whole of a second run: two file checks, no Python start-up.
if [ -x $venv/bin/python ] && cmp -s "$wanted" "$stamp"; then
    exit 0
fi

recent='import sys; sys.exit(sys.version_info < (3, 12))'
if [ -x $venv/bin/python ] && [ -x $venv/bin/pip ]; then
    $venv/bin/python -c "$recent" 2>/dev/null ||
        fail "The Python of $venv is older than 3.12 or broken: remove it (rm -r $venv) and run make again."
else
    interpreter=
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12}; do
        if "$candidate" -c "$recent" >/dev/null 2>&1; then
            interpreter=$candidate
            break
        fi
    done
    [ -n "$interpreter" ] ||
        fail "IronAuth needs Python 3.12 or newer, none of \"${PYTHON:-python3 python3.14 python3.13 python3.12}\" is:" \
            "install one (https://www.python.org/downloads/) or name it: make PYTHON=/path/to/python3.13 run"
    say "Making $venv with $("$interpreter" --version 2>&1)"
    said=$("$interpreter" -m venv $venv 2>&1) || {
        case $said in
        *ensurepip*) fail "This Python cannot make virtual environments: install its venv package" \
            "(Debian: apt install python3-venv) and run make again." ;;
        *) fail "Cannot make $venv ($(printf '%s' "$said" | tail -n 1)): make $(pwd) writable for this user." ;;
        esac
    }
fi

# Half an installation, or one of another release over this one, must not pass for what was installed before.
rm -f $venv/.installed-*.txt
say "Installing $wanted (wheels, hashes checked)"
said=$($venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --retries 2 \
    --require-hashes --only-binary :all: -r "$wanted" 2>&1) ||
    fail "pip could not install $wanted ($(printf '%s' "$said" | grep -i error | tail -n 1)):" \
        "check the way to the package index (PIP_INDEX_URL, proxy) and that $venv is writable."
# Both contain the base requirements at the same versions (-c requirements/base.txt).
if [ "$kind" = dev ] || [ "$kind" = otel ]; then
    cp requirements/base.txt .venv/.installed-base.txt
fi
cp "$wanted" "$stamp"
