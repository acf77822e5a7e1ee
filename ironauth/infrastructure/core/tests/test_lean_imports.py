"""A worker has in memory what it needs: no libraries of storage it does not use, or of what nobody uses here."""

import subprocess
import sys

import pytest
from django.conf import settings

from conftest import process_environment
from ironauth.infrastructure.core.lean_imports import without

#: The worst of what was loaded without need, in MiB of a worker's memory: psycopg 9, redis 8, requests 5, webauthn 6,
#: docutils, Jinja2 and rich 8 together.
NOT_NEEDED = (
    "psycopg",
    "psycopg_binary",
    "redis",
    "django_redis",
    "requests",
    "yaml",
    "webauthn",
    "docutils",
    "jinja2",
    "rich",
)
#: What is loaded with all routes, and which thread loads what the first passkey needs.
SERVING = """
import asyncio, ironauth.asgi, sys, threading
from django.urls import get_resolver
from accounts.mfa.passkeys.facts import load_ceremonies
get_resolver().url_patterns
loaded = "tokens.sign_in.views" in sys.modules
print(loaded, sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1:])))
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "webauthn":
            print("on the loop" if threading.current_thread() is threading.main_thread() else "on a thread")
sys.meta_path.insert(0, Watch())
asyncio.run(load_ceremonies())
print("accounts.mfa.passkeys.ceremonies" in sys.modules)
"""


def test_a_worker_on_sqlite_loads_no_library_it_does_not_need() -> None:
    """With all routes loaded, nothing of Postgres, Redis and passkeys is there, nor what DRF tries to import.

    The first passkey's library is loaded by a thread: its 60 ms are not the event loop's.
    """
    said = subprocess.run(
        [sys.executable, "-c", SERVING, *NOT_NEEDED],
        cwd=settings.BASE_DIR,
        env=process_environment() | {"DATABASE_URL": "sqlite:////nowhere/at-all.sqlite3", "REDIS_URL": ""},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.splitlines() == ["True []", "on a thread", "True"]


def test_what_is_hidden_is_missing_inside_the_block_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be imported, as if it were not installed; afterwards it can."""
    monkeypatch.delitem(sys.modules, "cmd", raising=False)
    with pytest.raises(ModuleNotFoundError), without("cmd"):
        import cmd  # noqa: PLC0415 - that is the test
    import cmd  # noqa: PLC0415 - as above

    assert cmd.Cmd is not None


def test_what_is_there_already_stays() -> None:
    """Hiding it would break anybody who has it."""
    with without("json"):
        import json  # noqa: PLC0415 - that is the test

        assert json.loads("1") == 1
    assert sys.modules["json"] is json
