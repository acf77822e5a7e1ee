"""The hot lane is told from the API lane by its speed alone, and forgets a token in the instant the cache does."""

import uuid
from typing import Any

import httpx
import pytest
from django.core.signals import request_finished, request_started
from django.test import override_settings
from pytest_django import Settings
from rest_framework.permissions import IsAdminUser, IsAuthenticated
from rest_framework.throttling import UserRateThrottle

from accounts.own_account.views import MeView
from accounts.users.invariants import sub_tag
from accounts.users.models import User
from conftest import bearer
from ironauth import asgi
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.asgi_types import WHOLE_ANSWER, Message, Receive, Scope, Send
from ironauth.infrastructure.http import fast_request, hot_lane
from ironauth.infrastructure.telemetry import logs
from ironauth.tests.asgi_conversation import Conversation
from tokens.access.credentials import access_name
from tokens.oauth.token.forward_auth import VerifyView

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

ME, VERIFY = "/api/v1/access/me", "/api/v1/access/verify"
PATHS = (ME, VERIFY)


async def ask(path: str, headers: list[tuple[str, str]], method: str = "GET", **scope: Any) -> list[Any]:
    """Send one request to the application; return its messages with the request id masked."""
    conversation = Conversation(path, method, **scope).body()
    fields = [*(() if "host" in dict(headers) else (("host", "testserver"),)), *headers]
    conversation.scope["headers"] = [(name.encode(), value.encode("latin1")) for name, value in fields]
    await conversation.run(asgi.application)
    head, *rest = conversation.sent
    given = [value for name, value in headers if name == "x-request-id"]
    shown = [
        (name, value if [value.decode()] == given else b"<id>") if name.lower() == b"x-request-id" else (name, value)
        for name, value in head["headers"]
    ]
    return [{**head, "headers": shown}, *({**message, "more_body": False} for message in rest)]


async def warm(headers: list[tuple[str, str]]) -> None:
    """Ask often enough for every answer to be remembered: verified, then recorded."""
    for path in PATHS:
        for method in ("GET", "HEAD"):
            for scheme in ("http", "https"):
                for _ in range(2):
                    await ask(path, headers, method, scheme=scheme)


def by_bearer(token: str) -> list[tuple[str, str]]:
    """Return the fields of an API client."""
    return [("authorization", f"Bearer {token}")]


def by_cookie(token: str) -> list[tuple[str, str]]:
    """Return the fields of a browser."""
    return [("cookie", f"theme=dark; {access_name()}={token}; other=1")]


@pytest.mark.parametrize("credential", [by_bearer, by_cookie])
async def test_a_known_token_never_reaches_django(pair: dict[str, Any], api_lane: list[str], credential: Any) -> None:
    """By header and by cookie, GET and HEAD, with an unknown query, a conditional request, any Accept."""
    headers = credential(pair["access_token"])
    await warm(headers)
    api_lane.clear()
    for path in PATHS:
        for method in ("GET", "HEAD"):
            answer = await ask(path, headers, method)
            assert answer[0]["status"] == (200 if path == ME else 204)
        await ask(path, headers, query_string=b"unknown=1&x=%C3%A9")
        await ask(path, [*headers, ("if-none-match", "*"), ("range", "bytes=0-1"), ("accept", "text/html")])
        await ask(path, [*headers, ("x-request-id", "from-the-proxy")])
    assert api_lane == []


async def test_invented_hosts_keep_nobody_from_it(
    pair: dict[str, Any], api_lane: list[str], settings: Settings
) -> None:
    """Requests for more hosts than are remembered, before and after, leave a known token in the hot lane."""
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, ".wild.example"]
    headers = by_bearer(pair["access_token"])
    invented = [f"{number}.wild.example:{number}" for number in range(1, 2 * fast_request.MAX_REMEMBERED)]
    for host in invented:
        assert (await ask("/ping", [("host", host)]))[0]["status"] == 200
    await warm(headers)
    for host in invented:
        await ask("/ping", [("host", host)])
    assert len(fast_request._remembered) <= fast_request.MAX_REMEMBERED
    api_lane.clear()
    assert (await ask(ME, headers))[0]["status"] == 200
    assert api_lane == []
    assert (await ask(ME, [*headers, ("host", "evil.example")]))[0]["status"] == 400


@pytest.mark.parametrize("hot", [True, False])
@pytest.mark.parametrize("scheme", ["Digest ", "Bearers", "bEARER:", "Basic  ", "", "Token "])
async def test_only_the_scheme_bearer_brings_a_token(
    pair: dict[str, Any], settings: Settings, scheme: str, hot: bool
) -> None:
    """A token that is known opens nothing behind the name of another scheme, in either lane."""
    settings.IRONAUTH_HOT_LANE = hot
    good = by_bearer(pair["access_token"])
    await warm(good)
    for path in PATHS:
        assert (await ask(path, good))[0]["status"] in (200, 204)
        answer = await ask(path, [("authorization", f"{scheme}{pair['access_token']}")])
        assert answer[0]["status"] in (400, 401), (path, scheme)


async def test_what_a_scope_is_asked_for_is_remembered_apart(pair: dict[str, Any], api_lane: list[str]) -> None:
    """However it is spelled; a few of them, and no long ones."""
    headers = by_bearer(pair["access_token"])
    await warm(headers)
    for query, status, seen in ((b"scope=account", 204, 1), (b"scope=reports", 403, 2), (b"s%63ope=reports", 403, 2)):
        api_lane.clear()
        for _ in range(2):
            assert (await ask(VERIFY, headers, query_string=query))[0]["status"] == status, query
        assert len(api_lane) == seen  # a refusal is not remembered
    for number in range(2 * hot_lane.MAX_ANSWERS):
        await ask(VERIFY, headers, query_string=b"scope=account&x=%d" % number)
    known = [kept for kept in _kept() if ("GET", VERIFY, "http") in kept][-1]
    assert len(known) == hot_lane.MAX_ANSWERS
    api_lane.clear()
    for length, lane in ((hot_lane.MAX_QUERY, 0), (hot_lane.MAX_QUERY + 1, 1)):
        await ask(VERIFY, headers, query_string=b"x" * length)
        assert len(api_lane) == lane
        api_lane.clear()


async def test_what_a_token_is_for_is_judged_each_time(pair: dict[str, Any], api_lane: list[str]) -> None:
    """An answer that is kept says nothing about an API that is named, however the parameter is spelled."""
    headers = by_bearer(pair["access_token"])
    await warm(headers)
    assert (await ask(VERIFY, headers))[0]["status"] == 204
    api_lane.clear()
    for query in (b"resource=https://a.example", b"r%65source=https://a.example", b"scope=account&resource=urn:b"):
        for _ in range(2):
            assert (await ask(VERIFY, headers, query_string=query))[0]["status"] == 401, query
    assert len(api_lane) == 6
    assert (await ask(VERIFY, headers))[0]["status"] == 204
    assert len(api_lane) == 6


def variants(token: str) -> dict[str, tuple[list[tuple[str, str]], dict[str, Any]]]:
    """Return requests of every kind: the plain, and all that is unusual about a credential or a request."""
    name = access_name()
    good = by_bearer(token)
    other = f"{token[:-2]}{'AA' if token[-2:] != 'AA' else 'BB'}"
    header, payload, signature = token.split(".")
    return {
        "plain": (good, {}),
        "cookie": (by_cookie(token), {}),
        "https": (good, {"scheme": "https"}),
        "no credential": ([], {}),
        "request id": ([*good, ("x-request-id", "a.b_c-1")], {}),
        "bad request id": ([*good, ("x-request-id", "a b")], {}),
        "two request ids": ([*good, ("x-request-id", "a"), ("x-request-id", "b")], {}),
        "query": (good, {"query_string": b"a=1"}),
        "query that is no text": (good, {"query_string": b"a=\xff"}),
        "query with another token": (good, {"query_string": f"access_token={other}".encode()}),
        "conditional": ([*good, ("if-none-match", '"x"'), ("if-modified-since", "Sat, 21 Nov 2026 00:00:00 GMT")], {}),
        "accept": ([*good, ("accept", "application/xml")], {}),
        "another signature": (by_bearer(other), {}),
        "another payload": (by_bearer(f"{header}.{payload[:-4]}AAAA.{signature}"), {}),
        "lower case scheme": ([("authorization", f"bearer {token}")], {}),
        "two spaces": ([("authorization", f"Bearer  {token}")], {}),
        "trailing space": ([("authorization", f"Bearer {token} ")], {}),
        "basic": ([("authorization", "Basic YTpi")], {}),
        "basic and cookie": ([("authorization", "Basic YTpi"), *by_cookie(token)], {}),
        "header twice": ([*good, *good], {}),
        "header and cookie": ([*good, *by_cookie(token)], {}),
        "cookie twice": ([("cookie", f"{name}={token}; {name}={token}")], {}),
        "two cookie fields": ([*by_cookie(token), ("cookie", "a=b")], {}),
        "cookie with a space": ([("cookie", f"{name} ={token}")], {}),
        "quoted cookie": ([("cookie", f'{name}="{token}"')], {}),
        "empty cookie": ([("cookie", f"{name}="), *good], {}),
        "name in another cookie": ([("cookie", f"x={name}"), *good], {}),
        "longer cookie name": ([("cookie", f"{name}x={token}")], {}),
        "token with letters beyond ASCII": ([("authorization", f"Bearer {token}é")], {}),
        "content type": ([*good, ("content-type", "text/plain; charset=x")], {}),
        "expect": ([*good, ("expect", "100-continue")], {}),
        "empty body": ([*good, ("content-length", "0")], {}),
        "foreign host": ([*good, ("host", "evil.example")], {}),
        "root path": (good, {"root_path": "/mounted", "path": f"/mounted{ME}"}),
        "root path that is part of ours": (good, {"root_path": "/api", "path": ME}),
        "HTTP/1.0": (good, {"http_version": "1.0"}),
    }


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
async def test_both_lanes_answer_alike(pair: dict[str, Any], path: str, method: str) -> None:
    """Status, fields in their order, and body are the same byte for byte, whatever the request."""
    token = pair["access_token"]
    await warm(by_bearer(token))
    await warm(by_cookie(token))
    for name, (headers, scope) in variants(token).items():
        given = {"path": path, **scope}
        with override_settings(SECURE_HSTS_SECONDS=0):
            hot = [await ask(given["path"], headers, method, **_rest(given)) for _ in range(3)]
            with override_settings(IRONAUTH_HOT_LANE=False):
                plain = await ask(given["path"], headers, method, **_rest(given))
        assert _alike(hot[0]) == _alike(hot[1]) == _alike(hot[2]) == _alike(plain), name


def _rest(scope: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in scope.items() if name != "path"}


def _alike(messages: list[Any]) -> list[Any]:
    """Return messages without what names the request inside a problem document."""
    *heads, body = messages
    text = body["body"]
    at = text.find(b'"request_id":"')
    return [*heads, {**body, "body": text[:at] if at >= 0 else text}]


async def test_hsts_follows_the_scheme(pair: dict[str, Any], settings: Settings) -> None:
    """An answer remembered for http is not given to https, and the other way."""
    settings.SECURE_HSTS_SECONDS = 60
    headers = by_bearer(pair["access_token"])
    for _ in range(3):
        for scheme, said in (("http", False), ("https", True)):
            head = (await ask(ME, headers, scheme=scheme))[0]
            assert (b"Strict-Transport-Security" in dict(head["headers"])) is said
    settings.IRONAUTH_TRUSTED_PROXIES = ["203.0.113.9/32"]
    for _ in range(3):
        head = (await ask(ME, [*headers, ("x-forwarded-proto", "https")]))[0]
        assert b"Strict-Transport-Security" in dict(head["headers"])


@pytest.mark.parametrize("end", ["sign-out", "sign-out everywhere", "expiry", "deactivated", "invalidated"])
async def test_an_ended_token_is_refused_at_once(
    api: httpx.AsyncClient, pair: dict[str, Any], member: dict[str, Any], end: str
) -> None:
    """Whatever ends a token is heard by the hot lane in the instant it is by the cache; the answer is the API's."""
    headers = by_bearer(pair["access_token"])
    await warm(headers)
    shift = 0.0
    match end:
        case "sign-out":
            assert (await api.post("/api/v1/access/logout", headers=bearer(pair))).status_code == 204
        case "sign-out everywhere":
            assert (await api.post("/api/v1/access/logout-all", headers=bearer(pair))).status_code == 204
        case "expiry":
            shift = pair["expires_in"] + 0.01
        case "deactivated":
            user = await User.objects.aget(pk=member["id"])
            user.is_active = False
            await user.asave()
        case "invalidated":
            await User.objects.filter(pk=member["id"]).adelete()
            token_cache().drop(sub_tag(uuid.UUID(member["id"])))
    with clock.shifted(shift):
        for path in PATHS:
            hot = await ask(path, headers)
            assert hot[0]["status"] == 401
            with override_settings(IRONAUTH_HOT_LANE=False):
                assert _alike(await ask(path, headers)) == _alike(hot)


async def test_a_changed_profile_is_seen_at_once(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """A new name is in the next answer: the remembered one belonged to the principal before."""
    headers = by_bearer(pair["access_token"])
    await warm(headers)
    for name in ("Mia Two", "Mia Three"):
        assert (await api.patch(ME, json={"name": name}, headers=bearer(pair))).status_code == 200
        for _ in range(3):
            assert f'"name":"{name}"'.encode() in (await ask(ME, headers))[1]["body"]


async def test_people_do_not_get_each_others_answers(
    api: httpx.AsyncClient, pair: dict[str, Any], member: dict[str, Any]
) -> None:
    """Two tokens of one person, and of two people, are two entries."""
    email = f"{uuid.uuid4().hex}@example.com"
    signup = {"email": email, "password": member["password"], "name": "Other"}
    assert (await api.post("/api/v1/access/signup", json=signup)).status_code == 201
    signin = {"email": email, "password": member["password"]}
    other = (await api.post("/api/v1/access/signin", json=signin)).json()
    for _ in range(3):
        for one, address in ((pair, member["email"]), (other, email)):
            assert address.encode() in (await ask(ME, by_bearer(one["access_token"])))[1]["body"]


async def test_listeners_and_middleware_see_every_request(
    pair: dict[str, Any], api_lane: list[str], settings: Settings
) -> None:
    """With a receiver of Django's request signals, a second middleware, or the switch off, the API lane answers."""
    headers = by_bearer(pair["access_token"])
    await warm(headers)

    def listener(**_: object) -> None:
        pass

    for signal in (request_started, request_finished):
        signal.connect(listener)
        try:
            api_lane.clear()
            await ask(ME, headers)
            assert api_lane == [ME]
        finally:
            signal.disconnect(listener)
    for name, value in (("API_MIDDLEWARE", ["a", "b"]), ("IRONAUTH_HOT_LANE", False)):
        with override_settings(**{name: value}):
            api_lane.clear()
            await ask(ME, headers)
            assert api_lane == [ME]
    api_lane.clear()
    await ask(ME, headers)
    assert api_lane == []


def test_views_that_must_see_every_request_are_left_to_the_api_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """A throttle, or a permission beyond having a token, takes a path out of the lane."""
    assert all(asgi._depends_on_the_token_alone(path) for path in PATHS)
    monkeypatch.setattr(MeView, "throttle_classes", [UserRateThrottle])
    assert not asgi._depends_on_the_token_alone(ME)
    monkeypatch.setattr(VerifyView, "permission_classes", [IsAuthenticated, IsAdminUser])
    assert not asgi._depends_on_the_token_alone(VERIFY)


async def test_memory_is_bounded(
    api: httpx.AsyncClient, pair: dict[str, Any], member: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers make room with their entry of the cache, and the oldest for new ones; they are recorded again then."""
    memory = token_cache()._l1
    await warm(by_bearer(pair["access_token"]))
    mine = _kept()[-1]
    assert memory.bytes > sum(len(answer.body) for answer in mine.values())
    monkeypatch.setattr(memory, "max_bytes", 10 * memory.bytes)  # of the process's one cache: others need their room
    signin = {"email": member["email"], "password": member["password"]}
    for _ in range(20):
        await warm(by_bearer((await api.post("/api/v1/access/signin", json=signin)).json()["access_token"]))
        assert memory.bytes <= memory.max_bytes
    assert 5 < len(_kept()) < 20
    assert all(kept is not mine for kept in _kept())
    await warm(by_bearer(pair["access_token"]))
    assert _kept()[-1].keys() == mine.keys()
    token_cache().clear()
    assert _kept() == []


async def test_fields_are_shared_between_tokens(
    api: httpx.AsyncClient, pair: dict[str, Any], member: dict[str, Any]
) -> None:
    """What every answer has is one object for all of them; what names a person is nobody else's."""
    signin = {"email": member["email"], "password": member["password"]}
    other = (await api.post("/api/v1/access/signin", json=signin)).json()
    for one in (pair, other):
        await warm(by_bearer(one["access_token"]))
    key = ("GET", VERIFY, "http")
    answers = [kept[key] for kept in _kept() if key in kept]
    first, second = ([*answer.before.fields, *answer.after.fields] for answer in answers[-2:])
    shared = [name for (name, _), mine, its in zip(first, first, second, strict=True) if mine is its]
    assert b"Cache-Control" in shared
    assert b"X-Frame-Options" in shared
    assert not any(name.startswith(b"X-Auth-") for name in shared)
    assert len(hot_lane._shared) <= hot_lane.MAX_SHARED


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_server_that_takes_whole_answers_gets_the_same(pair: dict[str, Any], path: str, method: str) -> None:
    """One message with the lines of the head instead of two; an answer not known yet comes in two."""
    headers = [*by_bearer(pair["access_token"]), ("x-request-id", "mine")]
    first = Conversation(path, method, dict(headers), extensions={WHOLE_ANSWER: {}}).body()
    assert len((await first.run(asgi.application)).sent) == 2
    await warm(headers)
    start, body = await ask(path, headers, method)
    conversation = Conversation(path, method, dict(headers), extensions={WHOLE_ANSWER: {}}).body()
    [whole] = (await conversation.run(asgi.application)).sent
    lines = [tuple(line.split(b": ", 1)) for line in whole["lines"].splitlines()]
    assert lines == [(name.lower(), value) for name, value in start["headers"]]
    assert (whole["type"], whole["status"], whole["body"]) == (WHOLE_ANSWER, start["status"], body["body"])


async def test_no_token_is_kept(pair: dict[str, Any]) -> None:
    """What is remembered opens nothing: a digest, the answers, and no credential."""
    await warm(by_bearer(pair["access_token"]))
    entries = token_cache()._l1._aliases
    assert entries
    assert pair["access_token"] not in repr(entries)


async def test_every_answer_is_logged_with_its_own_id(
    pair: dict[str, Any], monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """One access line for each answer, without the query; none when the log is off."""
    settings.IRONAUTH_ACCESS_LOG = True
    lines: list[tuple[Any, ...]] = []
    monkeypatch.setattr(logs, "access", lambda *fields: lines.append(fields))
    headers = by_bearer(pair["access_token"])
    await warm(headers)
    lines.clear()
    await ask(ME, [*headers, ("x-request-id", "mine")], query_string=b"secret=1")
    await ask(VERIFY, headers)
    assert [line[:3] for line in lines] == [("GET", ME, 200), ("GET", VERIFY, 204)]
    assert lines[0][4:] == ("203.0.113.9", "mine")
    assert len(lines[1][5]) == 32
    settings.IRONAUTH_ACCESS_LOG = False
    await ask(ME, headers)
    assert len(lines) == 2


def _kept() -> list[dict[Any, Any]]:
    """Return the answers to every token, the one recognised last at the end."""
    return [entry.beside for entry in token_cache()._l1._aliases.values() if entry.beside is not None]


@pytest.mark.parametrize("stays", [True, False])
async def test_an_answer_is_kept_for_a_token_that_is_still_the_same(stays: bool) -> None:
    """Where the token ends while the view answers, the answer is sent and is kept nowhere."""
    answers: dict[Any, Any] = {}
    good, sent = [True], []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        good[0] = stays
        headers = [(b"X-Request-ID", b"a"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message["type"])

    lane = hot_lane.HotLane(
        application,
        paths=frozenset({ME}),
        answers_of=lambda _token: answers if good[0] else None,
        keep=lambda _token, request, answer, size: answers.update({request: (answer, size)}),
        cookie_name=access_name,
    )
    headers = [(b"host", b"testserver"), (b"authorization", b"Bearer a.b.c")]
    scope = {"type": "http", "method": "GET", "path": ME, "scheme": "http", "headers": headers, "query_string": b""}
    await lane(scope, receive, send)
    assert sent == ["http.response.start", "http.response.body"]
    assert len(answers) == stays
    assert all(size > len(answer.body) for answer, size in answers.values())
