"""``manage.py demo`` against a real server."""

import socket
from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

pytestmark = pytest.mark.live


@pytest.mark.storage
def test_the_whole_walk(serve_process: Callable[..., str]) -> None:
    """Every step answers as expected, and no whole secret is printed."""
    out = StringIO()
    call_command("demo", url=serve_process("--migrate"), stdout=out, no_color=True)
    text = out.getvalue()
    assert "Every answer was the expected one." in text
    for line in ("-> 201", "-> 409", "-> 200", "-> 204", "-> 401"):
        assert line in text
    assert "X-Auth-Subject" in text or "x-auth-subject" in text
    assert '"password": "…"' in text
    assert "otters" not in text
    shown = [line.partition("Bearer ")[2] for line in text.splitlines() if line.startswith("Authorization: ")]
    assert len(set(shown)) == 3  # of the sign-in, of the refresh, of the second sign-in: told apart
    assert not any(len(word) > 100 for word in text.split() if "." in word)  # no access token in full


def test_no_server_is_one_line() -> None:
    """Without a server it fails in one line with the remedy."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(CommandError, match=r"^No IronAuth answers at .*: start it with make run .*$"):
            call_command("demo", url=url, stdout=StringIO())


def test_an_unexpected_answer_fails(serve_process: Callable[..., str]) -> None:
    """Pointed at the wrong place of a server, it stops at the first answer and names it."""
    base = serve_process("--migrate")
    with pytest.raises(CommandError, match=r"POST .*signup answered 404 instead of 201"):
        call_command("demo", url=f"{base}/api/elsewhere", stdout=StringIO())
    with pytest.raises(CommandError, match=r"POST .*signup answered 40\d without JSON: is .* an IronAuth"):
        call_command("demo", url=f"{base}/admin/elsewhere", stdout=StringIO())


def test_a_server_that_verifies_addresses_is_named_as_the_cause(
    serve_process: Callable[..., str],
) -> None:
    """There a sign-up is answered 202 whatever comes of it: the walk says which setting ends it, not that it failed."""
    base = serve_process("--migrate", IRONAUTH_EMAIL_VERIFICATION="required")
    with pytest.raises(CommandError, match=r"the walk ends here: .* without IRONAUTH_EMAIL_VERIFICATION=required"):
        call_command("demo", url=base, stdout=StringIO())
