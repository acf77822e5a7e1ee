"""The five requests of a sign-in at a client: what counts as a right answer, a run, and the report."""

import base64
import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from accounts.users.models import User
from conftest import PASSWORD
from perf.experiments.oauth_flow.report import NATIVE, STORAGES, WHEEL, Seen, finding
from perf.experiments.oauth_flow.windows import Measured, Window
from perf.http_client import Reply
from perf.load.oauth_flow import STEPS, Flows, access_tokens, run_flows
from perf.load.oauth_messages import (
    REDIRECT_URI,
    SCOPE,
    Application,
    Wrong,
    application_of,
    check_introspection,
    code_in,
    sealed_in,
    subject_in,
    tokens_in,
)  # fmt: skip
from perf.rig.hash_rate import HashRate
from perf.rig.processes import ThreadTimes, free_port, thread_times
from tokens.oauth.tests.material import make_client

KEY = rsa.generate_private_key(65_537, 2048)
SPKI = KEY.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
ISSUER = "http://127.0.0.1:8000"
SHOP = Application("shop", "secret", ISSUER, {"k1": SPKI})
PAGE = b'<form method="post" action="/oauth/signin">\n  <input type="hidden" name="request" value="a&amp;b">'
FRAMELESS = {
    "content-type": ["text/html; charset=utf-8"],
    "content-security-policy": ["default-src 'none'; frame-ancestors 'none'"],
    "set-cookie": ["__Host-authorize=x; Path=/; Secure"],
}
TOKENS = {
    "access_token": "a", "token_type": "Bearer", "expires_in": 600, "scope": SCOPE, "refresh_token": "r",
    "id_token": "i",
}  # fmt: skip
ACTIVE = {
    "active": True, "client_id": "shop", "sub": "mia", "scope": SCOPE, "token_type": "Bearer", "iss": ISSUER,
}  # fmt: skip


def _reply(fields: dict[str, list[str]] | None = None, body: Any = b"", status: int = 200) -> Reply:
    return Reply(status, fields or {}, body if isinstance(body, bytes) else msgspec.json.encode(body))


def test_only_a_page_with_the_form_that_nobody_may_frame_is_taken() -> None:
    """The hidden value comes without its escapes; a form, a policy or a cookie less is wrong."""
    assert sealed_in(_reply(FRAMELESS, PAGE)) == "a&b"
    for reply in (
        _reply(FRAMELESS, b"<form>"),
        _reply(FRAMELESS | {"content-security-policy": ["default-src 'none'"]}, PAGE),
        _reply(FRAMELESS | {"set-cookie": []}, PAGE),
        _reply(FRAMELESS | {"content-type": ["application/json"]}, PAGE),
    ):
        with pytest.raises(Wrong):
            sealed_in(reply)


@pytest.mark.parametrize(
    ("location", "right"),
    [
        (f"{REDIRECT_URI}?code=c&state=s&iss={ISSUER}", True),
        (f"{REDIRECT_URI}?code=c&state=t&iss={ISSUER}", False),
        (f"{REDIRECT_URI}?code=c&state=s&iss=http://elsewhere", False),
        (f"{REDIRECT_URI}?error=access_denied&state=s&iss={ISSUER}", False),
        (f"https://elsewhere.example/callback?code=c&state=s&iss={ISSUER}", False),
        ("/account/signin", False),
    ],
)
def test_a_code_comes_back_to_the_client_with_state_and_issuer(location: str, right: bool) -> None:
    """Anything else at the end of a sign-in is wrong."""
    reply = _reply({"location": [location], "set-cookie": ["__Host-sso=x"]}, status=303)
    if right:
        assert code_in(reply, state="s", issuer=ISSUER) == "c"
    else:
        with pytest.raises(Wrong):
            code_in(reply, state="s", issuer=ISSUER)


def test_tokens_are_those_that_were_asked_for() -> None:
    """Another scope, type or member is wrong."""
    assert tokens_in(_reply(body=TOKENS), "token").refresh_token == "r"
    for change in ({"scope": "openid"}, {"token_type": "DPoP"}, {"expires_in": 0}, {"refresh_token": None}):
        with pytest.raises(Wrong):
            tokens_in(_reply(body=TOKENS | change), "token")


def _id_token(key: rsa.RSAPrivateKey = KEY, **changes: Any) -> str:
    claims = {"iss": ISSUER, "aud": "shop", "sub": "mia", "nonce": "n", **changes}
    parts = [base64.urlsafe_b64encode(msgspec.json.encode(part)).rstrip(b"=") for part in ({"kid": "k1"}, claims)]
    signed = b".".join(parts)
    return (
        signed + b"." + base64.urlsafe_b64encode(key.sign(signed, padding.PKCS1v15(), hashes.SHA256())).rstrip(b"=")
    ).decode()


def test_an_id_token_is_verified() -> None:
    """By its signature, issuer, audience and nonce."""
    assert subject_in(_id_token(), SHOP, nonce="n") == "mia"
    for token in (
        _id_token(rsa.generate_private_key(65_537, 2048)),
        _id_token(aud="wiki"),
        _id_token(nonce="m"),
        "a.b",
        "",
    ):
        with pytest.raises(Wrong):
            subject_in(token, SHOP, nonce="n")


@pytest.mark.parametrize("name", ACTIVE)
def test_introspection_says_what_was_issued(name: str) -> None:
    """Every member that is looked at counts."""
    check_introspection(_reply(body=ACTIVE), SHOP, "mia")
    with pytest.raises(Wrong):
        check_introspection(_reply(body=ACTIVE | {name: False}), SHOP, "mia")


@pytest.mark.live
@pytest.mark.django_db(transaction=True)
def test_a_run_at_a_real_server_finds_no_fault(
    serve_process: Callable[..., str], signing_key: str, rs256_key: str, new_email: Callable[[], str]
) -> None:
    """Two clients sign people in, every step as often as the others; who knows another issuer believes nothing."""
    port = free_port()
    base = serve_process(port=port, IRONAUTH_ISSUER=f"http://127.0.0.1:{port}", IRONAUTH_THROTTLE="0")
    client, secret = make_client(trusted=True, redirect_uris=[REDIRECT_URI], id_token_alg="RS256")
    people = [new_email() for _ in range(8)]
    for email in people:
        User.objects.create_user(email=email, password=PASSWORD)
    known = application_of(f"127.0.0.1:{port}", base, {"client_id": str(client.pk), "client_secret": secret})
    seen: list[int] = []

    def run(application: Application, seconds: float) -> Flows:
        return run_flows(
            ("127.0.0.1", port), application, clients=2, seconds=seconds, ramp_s=0.1, emails=itertools.cycle(people),
            password=PASSWORD, observe=lambda: seen.append(1),
        )  # fmt: skip

    tokens = access_tokens(("127.0.0.1", port), known, emails=iter(people[:3]), password=PASSWORD)
    assert len(set(tokens)) == 3
    with pytest.raises(Wrong):
        access_tokens(("127.0.0.1", port), known, emails=iter(people[:1]), password="another")
    flows = run(known, 2.0)
    assert flows.failures == {}
    assert flows.shed == 0
    assert flows.flows
    assert all(abs(len(each) - len(flows.flows)) <= 2 for each in flows.steps.values())
    wrong = run(msgspec.structs.replace(known, issuer="http://127.0.0.1:1"), 0.5)
    assert wrong.failures
    assert not wrong.flows
    assert len(seen) == 4


def test_threads_that_hash_are_told_from_the_others() -> None:
    """By their scheduling class; what one burns is its own."""
    before = thread_times(os.getpid())

    def burn() -> None:
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_BATCH, os.sched_param(0))
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        during.append(thread_times(os.getpid()))

    during: list[ThreadTimes] = []
    thread = threading.Thread(target=burn)
    thread.start()
    thread.join()
    assert during[0].hashing - before.hashing >= 0.05
    assert during[0].rest >= before.rest


def _measured(*, rate: float = 24.0, rest_ms: float = 10.0, introspect_ms: float = 30.0) -> Measured:
    flows = round(rate * 10)
    steps = {step: [int((introspect_ms if step == "introspect" else 5) * 1e6)] * flows for step in STEPS}
    window = Window(8, 10.0, flows, steps, flows * 0.06, flows * rest_ms / 1_000, 0.0, 0.0, {}, 0)
    return Measured([window, window])


def _seen(**figures: float) -> Seen:
    raw = {build: HashRate(2, 30.0, 60.0, 70.0, 60.0) for build in (WHEEL, NATIVE)}
    flows = {(storage, build, clients): _measured(**figures)
             for storage in STORAGES for build in raw for clients in (8, 20)}  # fmt: skip
    return Seen(raw, flows)


def test_the_promises_are_met_at_their_limits() -> None:
    """10 ms, 24 flows/s and 30 ms are good enough; the hash is taken off by either reckoning."""
    found = finding(_seen(), [])
    assert [str(check) for check in found.checks if not check.met] == []
    assert found.failed == 0
    assert _measured().subtracted_cpu_ms(60.0) == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("figures", "missed"),
    [
        ({"rest_ms": 10.1}, "CPU time of a flow without its hash, 8 clients"),
        ({"rate": 23.9}, "flows with Argon2 compiled"),
        ({"introspect_ms": 30.1}, "p95 of introspection, 20 clients"),
    ],
)
def test_each_promise_can_be_missed(figures: dict[str, float], missed: str) -> None:
    """A little beyond the limit falls short, and nothing else does."""
    found = [str(check) for check in finding(_seen(**figures), []).checks if not check.met]
    assert found
    assert all("FALLS SHORT" in line for line in found)
    assert any(missed in line for line in found)


def test_wrong_answers_make_the_finding_fail() -> None:
    """They are counted and named."""
    seen = _seen()
    seen.flows["sqlite", WHEEL, 8].windows[0].failures["token: status 500"] = 3
    found = finding(seen, [])
    assert found.failed >= 3
    assert any("token: status 500" in note for note in found.notes)
