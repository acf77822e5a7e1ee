"""SimpleJWT's paths: the same requests as to djangorestframework-simplejwt itself, and the same answers."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.urls import clear_url_caches
from pytest_django import Settings

from accounts.users.models import User
from conftest import PASSWORD
from ironauth import urls
from ironauth.config import addresses
from ironauth.infrastructure.core import clock
from tokens.sessions.models import Session
from tokens.simplejwt.tests import peer
from tokens.tests.browser import SIGNIN, Member, Pair
from tokens.tests.second_factor import enrol

type Step = tuple[str, object]
type Answer = tuple[int, dict[str, Any], dict[str, Any] | None]

OBTAIN = ("", {"username": "mia", "password": peer.PASSWORD})
GARBAGE = "no token"
FORGED = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ0b2tlbl90eXBlIjoiYWNjZXNzIn0.AAAA"
#: Steps that both servers take.
CASES: dict[str, list[Step]] = {
    "obtain": [OBTAIN],
    "wrong password": [("", {"username": "mia", "password": "wrong"})],
    "unknown person": [("", {"username": "nobody", "password": peer.PASSWORD})],
    "inactive person": [("", {"username": "tom", "password": peer.PASSWORD})],
    "no name": [("", {"password": peer.PASSWORD})],
    "no password": [("", {"username": "mia"})],
    "nothing": [("", {})],
    "blank name": [("", {"username": "", "password": peer.PASSWORD})],
    "refresh": [OBTAIN, ("refresh/", {"refresh": "$refresh"}), ("verify/", {"token": "$access"})],
    "refresh without a token": [("refresh/", {})],
    "refresh with a blank token": [("refresh/", {"refresh": ""})],
    "refresh with garbage": [("refresh/", {"refresh": GARBAGE})],
    "refresh with an access token": [OBTAIN, ("refresh/", {"refresh": "$access"})],
    "verify an access token": [OBTAIN, ("verify/", {"token": "$access"})],
    "verify a refresh token": [OBTAIN, ("verify/", {"token": "$refresh"})],
    "verify garbage": [("verify/", {"token": GARBAGE})],
    "verify a forged token": [("verify/", {"token": FORGED})],
    "verify nothing": [("verify/", {})],
    "blacklist": [OBTAIN, ("blacklist/", {"refresh": "$refresh"})],
    "refresh what is blacklisted": [
        OBTAIN,
        ("blacklist/", {"refresh": "$refresh"}),
        ("refresh/", {"refresh": "$refresh"}),
    ],
    "verify what is blacklisted": [OBTAIN, ("blacklist/", {"refresh": "$refresh"}), ("verify/", {"token": "$refresh"})],
    "blacklist twice": [OBTAIN, ("blacklist/", {"refresh": "$refresh"}), ("blacklist/", {"refresh": "$refresh"})],
    "blacklist garbage": [("blacklist/", {"refresh": GARBAGE})],
    "blacklist nothing": [("blacklist/", {})],
    "not an object": [("", ["mia"])],
}
#: Cases of other answers, with the reason.
DIFFERENT = {
    "not an object": "the body is refused before its fields are looked at: 400 as well, as a detail",
    "verify what is blacklisted": "whose session is over is signed out everywhere: 401 whatever the setting",
}
#: SimpleJWT says why a token is not good; this says nothing to who cannot show a good one.
REASONS = {"Token is invalid", "Token is blacklisted", "Token is expired", "Token has wrong type"}


@pytest.fixture(scope="module", params=["keep", "rotate"])
def simplejwt(request: pytest.FixtureRequest) -> Iterator[tuple[str, Callable[[list[Step]], list[Answer]]]]:
    """SimpleJWT in a process of its own, by each setting of rotation."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, str(Path(peer.__file__)), request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        written, read = server.stdin, server.stdout

        def ask(steps: list[Step]) -> list[Answer]:
            written.write(json.dumps(steps) + "\n")
            written.flush()
            found: list[Answer] = json.loads(read.readline())
            return found

        yield request.param, ask
        written.close()


@pytest.fixture
def paths(settings: Settings) -> Iterator[Callable[[str], None]]:
    """A switch of the setting, with the paths there as after a start with it."""
    kept = list(urls.urlpatterns)

    def switch(value: str) -> None:
        settings.IRONAUTH_SIMPLEJWT = value
        urls.urlpatterns[:] = [*kept, *urls.simplejwt()]
        clear_url_caches()

    yield switch
    urls.urlpatterns[:] = kept
    clear_url_caches()


@pytest.fixture
async def people(signing_key: str) -> None:
    """The same two people; here a name is an address."""
    for name, active in peer.PEOPLE.items():
        create = sync_to_async(User.objects.create_user)
        await create(email=f"{name}@example.com", password=peer.PASSWORD, is_active=active)


async def ask(api: httpx.AsyncClient, steps: list[Step]) -> list[Answer]:
    """Take the steps here."""
    known, answers = dict[str, str](), list[Answer]()
    for where, body in steps:
        filled = body
        if isinstance(body, dict):
            filled = {name: known.get(value, value) for name, value in body.items()}
            if body.get("username"):
                filled["username"] = f"{body['username']}@example.com"
        response = await api.post(f"/api/token/{where}", json=filled)
        assert response.headers["Content-Type"] == "application/json"
        answer = response.json()
        known |= {f"${name}": answer[name] for name in ("access", "refresh") if name in answer}
        claims = peer.claims_of(answer["access"]) if "access" in answer else None
        answers.append((response.status_code, answer, claims))
    return answers


def shape(body: Any) -> Any:
    """Return what a front end goes by: names, codes and texts, but not tokens, nor why one is not good."""
    if not isinstance(body, dict):
        return body
    kept = {
        name: "…" if name in ("access", "refresh") and isinstance(value, str) else value for name, value in body.items()
    }
    if kept.get("code") == "token_not_valid":
        assert kept.pop("detail") in REASONS
        kept.pop("messages", None)
    return kept


@pytest.mark.live
@pytest.mark.parametrize("case", CASES)
async def test_the_answers_are_simplejwts(
    simplejwt: tuple[str, Callable[[list[Step]], list[Answer]]], case: str, paths: Callable[[str], None], people: None,
    api: httpx.AsyncClient,
) -> None:  # fmt: skip
    """Status, names, codes and texts are the same; the access token has the claims that front ends read."""
    setting, theirs = simplejwt
    paths(setting)
    wanted, found = theirs(CASES[case]), await ask(api, CASES[case])
    if case in DIFFERENT:
        assert shape(found[-1][1]) != shape(wanted[-1][1])  # else it is no difference any more
        assert found[-1][0] in (400, 401)
        return
    assert [(status, shape(body)) for status, body, _ in found] == [(status, shape(body)) for status, body, _ in wanted]
    for (_, _, mine), (_, _, peers) in zip(found, wanted, strict=True):
        assert (mine is None) == (peers is None)
        if mine is not None and peers is not None:
            assert set(peers) <= set(mine)
            assert mine["token_type"] == peers["token_type"] == "access"
            assert mine["user_id"] == mine["sub"]


async def test_its_tokens_open_the_api(paths: Callable[[str], None], people: None, api: httpx.AsyncClient) -> None:
    """They are tokens of this server, and each way round."""
    paths("keep")
    ((_, pair, _),) = await ask(api, [OBTAIN])
    me = await api.get("/api/v1/access/me", headers={"Authorization": f"Bearer {pair['access']}"})
    assert (me.status_code, me.json()["email"]) == (200, "mia@example.com")
    ours = (await api.post(SIGNIN, json={"email": "mia@example.com", "password": peer.PASSWORD})).json()
    refreshed = await api.post("/api/token/refresh/", json={"refresh": ours["refresh_token"]})
    assert refreshed.status_code == 200


@pytest.mark.live
async def test_the_address_may_be_called_email(
    paths: Callable[[str], None], people: None, api: httpx.AsyncClient
) -> None:
    """As it is where the user model's USERNAME_FIELD is the address; a form does too."""
    paths("keep")
    data = {"email": "mia@example.com", "password": peer.PASSWORD}
    assert (await api.post("/api/token/", json=data)).status_code == 200
    assert (await api.post("/api/token/", data=data)).status_code == 200


@pytest.mark.storage
async def test_keep_keeps_the_token_until_the_session_ends(
    paths: Callable[[str], None],
    people: None,
    api: httpx.AsyncClient,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same refresh token is good again and again, long after; not after the session's own end."""
    paths("keep")
    ((_, pair, _),) = await ask(api, [OBTAIN])
    now = clock.now()
    body = {"refresh": pair["refresh"]}
    for later in (0, 1, settings.IRONAUTH_REFRESH_GRACE_S + 1, settings.IRONAUTH_SESSION_IDLE_S - 2):
        monkeypatch.setattr(clock, "now", lambda later=later: now + timedelta(seconds=later))
        answer = await api.post("/api/token/refresh/", json=body)
        assert (answer.status_code, list(answer.json())) == (200, ["access"])
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(seconds=settings.IRONAUTH_SESSION_IDLE_S + 1))
    assert (await api.post("/api/token/refresh/", json=body)).status_code == 401


@pytest.mark.storage
async def test_rotate_ends_the_session_of_a_reused_token(
    paths: Callable[[str], None], people: None, api: httpx.AsyncClient, settings: Settings
) -> None:
    """A token that was exchanged is good no more, and who holds its successor is signed out."""
    settings.IRONAUTH_REFRESH_GRACE_S = 0
    paths("rotate")
    (_, pair, _), (_, later, _) = await ask(api, [OBTAIN, ("refresh/", {"refresh": "$refresh"})])
    assert later["refresh"] != pair["refresh"]
    assert (await api.post("/api/token/refresh/", json={"refresh": pair["refresh"]})).status_code == 401
    assert (await api.post("/api/token/refresh/", json={"refresh": later["refresh"]})).status_code == 401


@pytest.mark.storage
async def test_a_token_of_a_client_is_not_taken(
    paths: Callable[[str], None], people: None, api: httpx.AsyncClient
) -> None:
    """What an OAuth client refreshes at the token endpoint, with its own credential, is refused here."""
    for setting in ("keep", "rotate"):
        paths(setting)
        ((_, pair, _),) = await ask(api, [OBTAIN])
        await Session.objects.aupdate(client_id="01a21f10-1ed1-757a-9d4c-5ee642be53e9")
        assert (await api.post("/api/token/refresh/", json={"refresh": pair["refresh"]})).status_code == 401


async def test_a_second_factor_is_asked_for(
    paths: Callable[[str], None], api: httpx.AsyncClient, member: Member, pair: Pair
) -> None:
    """SimpleJWT knows none: the password alone opens no session, and the answer says how to go on."""
    await enrol(api, pair)
    paths("keep")
    answer = await api.post("/api/token/", json={"email": member["email"], "password": PASSWORD})
    assert (answer.status_code, answer.json()["code"]) == (401, "mfa_required")
    assert answer.json()["mfa_token"]


async def test_off_there_is_nothing(paths: Callable[[str], None], people: None, api: httpx.AsyncClient) -> None:
    """Without the setting the paths are as unknown as any."""
    paths("off")
    for where in ("", "refresh/", "verify/", "blacklist/"):
        assert (await api.post(f"/api/token/{where}", json={})).status_code == 404


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[]", b'"x"', b"null", b'{"username": 1, "password": {}}'])
async def test_bad_bodies_are_refused(
    paths: Callable[[str], None], db: None, api: httpx.AsyncClient, body: bytes
) -> None:
    """Whatever is sent, each path answers 400 or 401, in SimpleJWT's form."""
    paths("rotate")
    for where in ("", "refresh/", "verify/", "blacklist/"):
        answer = await api.post(f"/api/token/{where}", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 401)
        assert isinstance(answer.json(), dict)
        assert "title" not in answer.json()


@pytest.mark.parametrize("value", ["/api/token/", "/auth/jwt/"])
def test_any_path_of_the_operators_will_do(value: str) -> None:
    """It begins and ends with a slash, and is none of ours."""
    assert addresses.folder(value, "IRONAUTH_SIMPLEJWT_PATH") == value


@pytest.mark.parametrize("value", ["api/token/", "/api/token", "/", "", "/a b/", "/a//", "/api/v1/token/", "/oauth/"])
def test_a_path_that_cannot_be_is_refused_at_the_start(value: str) -> None:
    """The message ends with one that can."""
    with pytest.raises(ImproperlyConfigured, match=r"IRONAUTH_SIMPLEJWT_PATH must .* write it like /api/token/$"):
        addresses.folder(value, "IRONAUTH_SIMPLEJWT_PATH")
