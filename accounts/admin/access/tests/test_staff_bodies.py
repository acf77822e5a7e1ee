"""Who may send more than 64 KiB to the admin: somebody signed in there."""

import httpx
import pytest
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.test import Client
from pytest_django import Settings

from accounts.users.models import User
from ironauth.infrastructure.admin.session_store import SessionStore, is_signed_in

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Referer": "http://testserver/admin/"}


def test_a_session_of_the_admin() -> None:
    """A session that somebody has signed in with counts; one without a person, an ended and an invented one do not."""
    signed_in, anonymous = SessionStore(), SessionStore()
    signed_in.update({SESSION_KEY: "x", BACKEND_SESSION_KEY: "y", HASH_SESSION_KEY: "z"})
    anonymous["language"] = "en"
    for session in (signed_in, anonymous):
        session.save()
    assert is_signed_in(str(signed_in.session_key))
    assert not is_signed_in(str(anonymous.session_key))
    assert not is_signed_in("a" * 32)
    key = str(signed_in.session_key)
    signed_in.flush()
    assert not is_signed_in(key)


async def test_strangers_get_413_at_the_door(
    api: httpx.AsyncClient, root: User, client: Client, settings: Settings
) -> None:
    """70 KiB for the admin are 413 without a session and with an invented one, and are read with a real one."""
    name = settings.SESSION_COOKIE_NAME
    session = client.cookies[name].value
    for cookie, statuses in (("", {413}), (f"{name}={'a' * 32}", {413}), (f"{name}={session}", {200, 302, 403})):
        headers = {**FORM, **({"Cookie": cookie} if cookie else {})}
        answer = await api.post("/admin/accounts/user/", content=b"a=" + b"b" * 70_000, headers=headers)
        assert answer.status_code in statuses


async def test_a_strange_head_is_no_server_error(api: httpx.AsyncClient, settings: Settings) -> None:
    """Cookies that come twice are 400, and a type or query that Django refuses is 413, before 70 KiB are read."""
    for name in (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME):
        for headers, query, status in (
            ({"Cookie": f"{name}=a; {name}=b"}, "", 400),
            ({"Cookie": f"{name}=a", "Content-Type": "a;" * 6_000}, "", 413),
            ({"Cookie": f"{name}=a", "Content-Type": "text/plain; charset=utf-8"}, "&" * 3_000, 413),
            ({"Cookie": f"{name}=a"}, "%ff", 413),
        ):
            answer = await api.post(f"/admin/login/?{query}", content=b"b" * 70_000, headers={**FORM, **headers})
            assert answer.status_code == status
