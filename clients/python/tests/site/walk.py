"""Django's part of the package, tried in this site: a program of its own, as settings are one for each process.

``test_django.py`` runs it by pytest with ``tests.site.settings``.
"""

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from django.test.utils import override_settings
from ironauth_client.django import checks
from ironauth_client.django.models import Identity, OpenSession
from ironauth_client.rest_framework import TokenUser
from ironauth_client.testing import FakeHolder, FakeIssuer
from ironauth_client.tokens import Claims

from tests.site.settings import FAKE, IRONAUTH_CLIENT, MIDDLEWARE

pytestmark = pytest.mark.django_db
User: Any = get_user_model()


def begin(browser: Client, after: str = "/who?x=1") -> dict[str, str]:
    """Send the browser to the server; return what it asks there."""
    answer = browser.get("/ironauth/sign-in/", {"next": after})
    assert answer.status_code == 302, answer.content
    where = urlsplit(answer["Location"])
    assert f"{where.scheme}://{where.netloc}{where.path}" == f"{FAKE.issuer}/authorize"
    return {name: value for name, (value,) in parse_qs(where.query).items()}


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the server answer the next codes with an ID token of these claims."""

    def give(**claims: Any) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            if request.url.path != "/token":
                return FakeIssuer.answer(FAKE, request)
            assert "code_verifier=" in request.content.decode()
            return httpx.Response(200, json={"id_token": FAKE.id_token(**claims)})

        monkeypatch.setattr(FAKE, "answer", answer)

    return give


def signed_in(browser: Client, tokens: Callable[..., None], **claims: Any) -> Any:
    asked = begin(browser)
    tokens(**{"nonce": asked["nonce"], "sid": "s-1", **claims})
    return browser.get("/ironauth/callback/", {"code": "c", "state": asked["state"], "iss": FAKE.issuer})


def test_a_person_is_made_once_and_found_by_issuer_and_subject(tokens: Callable[..., None]) -> None:
    """The second browser finds the same user; an existing user of the same address is somebody else."""
    other = User.objects.create_user("ann", email="ann@example.com")
    for _ in range(2):
        browser = Client()
        answer = signed_in(browser, tokens, email="ann@example.com", email_verified=True, name="Ann")
        assert (answer.status_code, answer["Location"]) == (302, "/who?x=1")
        assert browser.get("/who").content == b"ann@example.com"
    (identity,) = Identity.objects.all()
    assert (identity.issuer, identity.subject) == (FAKE.issuer, "person-1")
    assert identity.user != other
    assert not identity.user.has_usable_password()


def test_an_unverified_address_is_not_taken_over(tokens: Callable[..., None]) -> None:
    """The user has no address until the server says that it is verified."""
    assert signed_in(Client(), tokens, email="ann@example.com", email_verified=False).status_code == 302
    assert Identity.objects.get().user.email == ""


def test_an_answer_of_another_sign_in_is_refused(tokens: Callable[..., None]) -> None:
    """Another state, a state used twice, another browser's, another server's iss, another nonce, a refusal."""
    browser = Client()
    assert signed_in(browser, tokens).status_code == 302
    wrong: tuple[tuple[dict[str, str | None], dict[str, str]], ...] = (
        ({"state": "x"}, {}),
        ({"iss": "https://other.example"}, {}),
        ({}, {"nonce": "x"}),
        ({}, {"aud": "x"}),
        ({}, {"azp": "x"}),
        ({"code": None, "error": "access_denied"}, {}),
    )
    for change, claims in wrong:
        stranger = Client()
        asked = begin(stranger)
        tokens(**{"nonce": asked["nonce"], **claims})
        whole = {"code": "c", "state": asked["state"], "iss": FAKE.issuer, **change}
        query = {name: value for name, value in whole.items() if value is not None}
        refused = stranger.get("/ironauth/callback/", query)
        assert refused.status_code in (400, 401), change
        assert stranger.get("/who").content == b"nobody"
    asked = begin(browser)
    tokens(nonce=asked["nonce"])
    good = {"code": "c", "state": asked["state"], "iss": FAKE.issuer}
    assert [browser.get("/ironauth/callback/", good).status_code for _ in range(2)] == [302, 400]
    assert Client().get("/ironauth/callback/", good).status_code == 400


def test_two_tabs_can_sign_in(tokens: Callable[..., None]) -> None:
    """The second attempt does not undo the first; more than five are not kept."""
    browser = Client()
    first = [begin(browser) for _ in range(6)]
    tokens(nonce=first[1]["nonce"])
    assert browser.get("/ironauth/callback/", {"code": "c", "state": first[1]["state"]}).status_code == 302
    assert browser.get("/ironauth/callback/", {"code": "c", "state": first[0]["state"]}).status_code == 400


def test_the_way_back_stays_on_the_site(tokens: Callable[..., None]) -> None:
    """Another host in ``next`` is ignored."""
    browser = Client()
    asked = begin(browser, "https://evil.example/")
    tokens(nonce=asked["nonce"])
    answer = browser.get("/ironauth/callback/", {"code": "c", "state": asked["state"]})
    assert answer["Location"] == "/who"


def test_a_logout_token_ends_its_session_alone(tokens: Callable[..., None]) -> None:
    """Of two sessions of a person the one with the sid ends; without a sid all do; other people's stay."""
    browsers = {name: Client() for name in ("one", "two", "other")}
    signed_in(browsers["one"], tokens, sid="one", email="a@example.com", email_verified=True)
    signed_in(browsers["two"], tokens, sid="two", email="a@example.com", email_verified=True)
    signed_in(browsers["other"], tokens, sid="three", sub="person-2", email="b@example.com", email_verified=True)

    def inside() -> list[str]:
        return [name for name, browser in browsers.items() if browser.get("/who").content != b"nobody"]

    assert inside() == ["one", "two", "other"]
    assert told(sid="one").status_code == 200
    assert inside() == ["two", "other"]
    assert told().status_code == 200
    assert inside() == ["other"]


def told(token: str = "", **claims: Any) -> Any:
    return Client(enforce_csrf_checks=True).post(
        "/ironauth/backchannel-logout/", {"logout_token": token or FAKE.logout_token(**claims)}
    )


def test_what_is_no_logout_token_ends_nothing(tokens: Callable[..., None]) -> None:
    """An ID token, one with a nonce, without the event, without a subject, expired, used before, none at all."""
    browser = Client()
    signed_in(browser, tokens)
    used = FAKE.logout_token(sid="another")
    assert told(used).status_code == 200
    assert told(used).status_code == 400
    assert told(FAKE.id_token(nonce="n")).status_code == 400
    wrong: list[dict[str, Any]] = [
        {"nonce": "n"},
        {"events": {}},
        {"sub": None},
        {"exp": time.time() - 60},
        {"aud": "x"},
        {"jti": None},
    ]
    for claims in wrong:
        assert told(**claims).status_code == 400, claims
    assert Client().post("/ironauth/backchannel-logout/").status_code == 400
    assert Client().get("/ironauth/backchannel-logout/").status_code == 405
    assert OpenSession.objects.count() == 1
    assert browser.get("/who").content == Identity.objects.get().user.username.encode()


def test_signing_out_ends_the_session_here() -> None:
    """It is a POST with a CSRF token; the server that has no such endpoint does not matter."""
    assert Client(enforce_csrf_checks=True).post("/ironauth/sign-out/").status_code == 403
    assert Client().post("/ironauth/sign-out/")["Location"] == "http://testserver/"


def test_an_inactive_user_is_not_signed_in(tokens: Callable[..., None]) -> None:
    """Who was deactivated here cannot come in through the server."""
    signed_in(Client(), tokens)
    User.objects.update(is_active=False)
    assert signed_in(Client(), tokens).status_code == 400


def test_a_site_that_makes_no_users_refuses_new_people(tokens: Callable[..., None]) -> None:
    """With CREATE_USERS off only people who are known sign in."""
    with override_settings(IRONAUTH_CLIENT={**IRONAUTH_CLIENT, "CREATE_USERS": False}):
        assert signed_in(Client(), tokens).status_code == 400
    assert not Identity.objects.exists()


def test_the_api_takes_bearer_and_dpop() -> None:
    """200 with the scope, 403 without, 401 with a challenge for no token, a bad one, and a replayed proof."""
    api = Client()
    good = api.get("/orders", headers={"Authorization": f"Bearer {FAKE.access_token()}"})
    assert (good.status_code, good.json()) == (200, {"sub": "person-1"})
    assert api.get("/orders", headers={"Authorization": f"Bearer {FAKE.access_token(scope='x')}"}).status_code == 403
    assert (api.get("/orders").status_code, api.get("/orders")["WWW-Authenticate"]) == (401, "Bearer")
    bad = api.get("/orders", headers={"Authorization": f"Bearer {FAKE.access_token(aud='x')}"})
    assert (bad.status_code, bad["WWW-Authenticate"]) == (401, 'Bearer error="invalid_token"')
    holder = FakeHolder()
    token = FAKE.access_token(cnf={"jkt": holder.thumbprint})
    headers = {"Authorization": f"DPoP {token}", "DPoP": holder.proof(token, "GET", "http://testserver/orders")}
    assert [api.get("/orders", headers=headers).status_code for _ in range(2)] == [200, 401]
    assert api.get("/orders", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def mine(**claims: Any) -> Any:
    """Ask the view of local users with a token of these claims."""
    return Client().get("/mine", headers={"Authorization": f"Bearer {FAKE.access_token(**claims)}"})


def test_the_api_gives_the_user_that_a_sign_in_has_made(tokens: Callable[..., None]) -> None:
    """By issuer and subject, however the token names its person; not who is inactive, nor a client by itself."""
    User.objects.create_user("person-1", email="ann@example.com")
    signed_in(Client(), tokens)
    user = Identity.objects.get().user
    assert mine(email="ann@example.com", email_verified=True).json() == {"sub": user.pk}
    assert mine(scope="x").status_code == 403
    assert mine(sub=FAKE.client_id).status_code == 401
    User.objects.filter(pk=user.pk).update(is_active=False)
    refused = mine()
    assert (refused.status_code, refused["WWW-Authenticate"]) == (401, 'Bearer error="invalid_token"')


def test_the_api_makes_a_user_once_unless_the_site_makes_none() -> None:
    """Without a password and with no right."""
    with override_settings(IRONAUTH_CLIENT={**IRONAUTH_CLIENT, "CREATE_USERS": False}):
        assert mine().status_code == 401
    assert [mine(sub=sub).status_code for sub in ("a", "a", "b")] == [200, 200, 200]
    assert sorted(Identity.objects.values_list("subject", flat=True)) == ["a", "b"]
    assert not any(user.has_usable_password() or user.is_staff for user in User.objects.all())


@pytest.mark.parametrize(
    ("scopes", "roles", "held"),
    [
        ({}, {}, set()),
        ({"read": ["shop.see"]}, {}, {"shop.see"}),
        ({"write": ["shop.see"]}, {}, set()),
        ({}, {"clerks": ["shop.see", "other.do"]}, {"shop.see", "other.do"}),
        ({}, {"guests": ["shop.see"]}, set()),
        ({"read": ["shop.see", "shop.do"]}, {"clerks": ["shop.see", "other.do"]}, {"shop.see"}),
        ({"read": ["shop.see"]}, {"guests": ["shop.see"]}, set()),
    ],
)
def test_permissions_of_a_token(scopes: dict[str, list[str]], roles: dict[str, list[str]], held: set[str]) -> None:
    """What its scopes and its person's roles both give; of one map alone, what that gives; of none, nothing."""
    client_setting = {**IRONAUTH_CLIENT, "SCOPE_PERMISSIONS": scopes, "ROLE_PERMISSIONS": roles}
    with override_settings(IRONAUTH_CLIENT=client_setting):
        assert checks.check_settings() == []
        user = TokenUser(Claims(FAKE.issuer, "a", 0.0, scopes=frozenset({"read"}), roles=("clerks",)))
        assert user.get_all_permissions() == held
        assert user.has_perm("shop.see") == ("shop.see" in held)
        assert user.has_perms(["shop.see", "other.do"]) == ({"shop.see", "other.do"} <= held)
        assert user.has_module_perms("shop") == any(one.startswith("shop.") for one in held)
        assert not user.has_perm("shop.see", object())
        assert not user.has_module_perms("sho")


@pytest.mark.parametrize(
    ("changed", "number"),
    [
        ({"IRONAUTH_CLIENT": None}, "E001"),
        ({"IRONAUTH_CLIENT": {"ISSUER": "https://id.example.com"}}, "E001"),
        ({"IRONAUTH_CLIENT": {**IRONAUTH_CLIENT, "ISUER": "x"}}, "E002"),
        ({"IRONAUTH_CLIENT": {**IRONAUTH_CLIENT, "ISSUER": "http://id.example.com"}}, "E003"),
        ({"IRONAUTH_CLIENT": {**IRONAUTH_CLIENT, "SCOPE_PERMISSIONS": {"read": "shop.see"}}}, "E005"),
        ({"IRONAUTH_CLIENT": {**IRONAUTH_CLIENT, "ROLE_PERMISSIONS": {"clerks": ["see"]}}}, "E005"),
        ({"MIDDLEWARE": MIDDLEWARE[:-1]}, "E004"),
        ({"MIDDLEWARE": MIDDLEWARE[::-1]}, "E004"),
    ],
)
def test_checks_name_what_is_missing(changed: dict[str, Any], number: str) -> None:
    """The site as it is has no error; each change has its own."""
    assert checks.check_settings() == []
    with override_settings(**changed):
        assert [found.id for found in checks.check_settings()] == [f"ironauth_client.{number}"]


def test_migrations_are_complete() -> None:
    """The models ask for no migration that is not there."""
    call_command("makemigrations", "ironauth_client", check=True, dry_run=True, verbosity=0)
