"""A person's own account over HTTP, through the whole application."""

import asyncio
from typing import Any

import httpx
import pytest

from accounts.conftest import PASSWORD, SignIn
from accounts.own_account.views import MeView, SignupView
from accounts.users.inputs import SignupInput
from accounts.users.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
SIGNUP, SIGNIN, ME = "/api/v1/access/signup", "/api/v1/access/signin", "/api/v1/access/me"
USER_FIELDS = [
    "id", "email", "name", "is_active", "is_staff", "is_superuser", "email_verified", "roles", "created_at",
    "preferred_username", "given_name", "family_name", "zoneinfo", "locale", "updated_at",
]  # fmt: skip
MASS_ASSIGNMENT = {
    "is_staff": True,
    "is_superuser": True,
    "is_active": False,
    "id": "00000000-0000-7000-8000-000000000000",
    "pk": 1,
    "roles": ["admin"],
    "groups": [1],
    "user_permissions": [1],
    "email_verified": True,
    "email_verified_at": "2020-01-01T00:00:00Z",
    "session_epoch": 99,
    "created_at": "2020-01-01T00:00:00Z",
    "last_login": "2020-01-01T00:00:00Z",
    "email_key": "root@example.com",
    "password_hash": "x",
    "_state": {},
    "__class__": "x",
    "scope": "admin",
}


def _bad_fields(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
    return {error["field"] for error in answer.json()["errors"]}


async def test_sign_up_answers_the_contract(api: httpx.AsyncClient) -> None:
    """201, exactly the User fields in their order, never cached, nothing secret."""
    answer = await api.post(SIGNUP, json={"email": " Mia@Example.com ", "password": PASSWORD, "name": " Mia "})
    assert answer.status_code == 201
    assert list(answer.json()) == USER_FIELDS
    assert answer.json()["email"] == "Mia@Example.com"
    assert answer.json()["name"] == "Mia"
    assert answer.json()["roles"] == []
    assert answer.json()["created_at"].endswith("Z")
    assert answer.headers["cache-control"] == "no-store"
    assert PASSWORD not in answer.text


async def test_sign_up_ignores_fields_it_does_not_know(api: httpx.AsyncClient) -> None:
    """No name of a column makes anybody staff, verified or somebody else (ASVS 15.3.3)."""
    answer = await api.post(SIGNUP, json={"email": "eve@example.com", "password": PASSWORD, **MASS_ASSIGNMENT})
    assert answer.status_code == 201
    user = await User.objects.aget()
    assert (user.is_staff, user.is_superuser, user.is_active, user.session_epoch) == (False, False, True, 0)
    assert user.email_verified_at is None
    assert user.last_login is None
    assert user.email_key == "eve@example.com"
    assert str(user.pk) != MASS_ASSIGNMENT["id"]
    assert user.created_at.year > 2020
    assert await user.groups.acount() == 0


async def test_sign_up_names_every_bad_field(api: httpx.AsyncClient) -> None:
    """Address, password and name are all judged, also the policy when other fields are bad already."""
    answer = await api.post(SIGNUP, json={"email": "nobody", "password": "short", "name": "a\x00b"})
    assert _bad_fields(answer) == {"email", "password", "name"}
    assert _bad_fields(await api.post(SIGNUP, json={})) == {"email", "password"}
    assert _bad_fields(await api.post(SIGNUP, json={"email": "", "password": ""})) == {"email", "password"}


BAD_VALUES: dict[str, list[Any]] = {
    "email": [None, 5, True, [], {}, ["a@b.co"], "a\x00@b.co", "a@b.co\r\nBcc: x@y.zz", "x" * 300],
    "password": [None, 123456789012345678, True, [], {"a": 1}, "x" * 1025, "aaaaaaaaaaaaaaaaaa"],
    "name": [None, 7, False, [], {}, "x" * 151, "a\nb", "\x1b[31m", "a\x00"],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in BAD_VALUES for value in BAD_VALUES[field]])
async def test_sign_up_refuses_bad_values(api: httpx.AsyncClient, field: str, value: Any) -> None:
    """Wrong types, control characters and excess are a 400 naming that field, never a 500."""
    body = {"email": "mia@example.com", "password": PASSWORD, "name": "Mia", field: value}
    assert _bad_fields(await api.post(SIGNUP, json=body)) == {field}
    assert not await User.objects.aexists()


async def test_own_name_in_the_password_is_found(api: httpx.AsyncClient) -> None:
    """The policy knows the address and the name that come in the same body."""
    body = {"email": "liddell@example.com", "password": "liddell18521862", "name": "Alice"}
    answer = await api.post(SIGNUP, json=body)
    assert answer.json()["errors"][0]["code"] == "password_contextual"
    assert (await api.post(SIGNUP, json=body | {"email": "other@example.com"})).status_code == 201


@pytest.mark.parametrize("email", ["mia@example.com", "MIA@EXAMPLE.COM", " mia@example.com"])
async def test_taken_address_is_409(api: httpx.AsyncClient, email: str) -> None:
    """Any spelling of a taken address is refused with a code of its own."""
    assert (await api.post(SIGNUP, json={"email": "Mia@example.com", "password": PASSWORD})).status_code == 201
    answer = await api.post(SIGNUP, json={"email": email, "password": PASSWORD})
    assert (answer.status_code, answer.json()["code"]) == (409, "email_taken")


async def test_sign_up_race_over_http(api: httpx.AsyncClient) -> None:
    """Twenty simultaneous sign-ups of one address: one 201, the rest 409, one row."""
    posts = (api.post(SIGNUP, json={"email": "race@example.com", "password": PASSWORD}) for _ in range(20))
    statuses = [answer.status_code for answer in await asyncio.gather(*posts)]
    assert sorted(statuses) == [201] + [409] * 19
    assert await User.objects.acount() == 1


@pytest.mark.parametrize(
    "password",
    [
        "pass\x00word with a nul",
        " spaces count here ",
        "x" * 72 + "a",
        "ünïcödé is fïne hère",
        "😀😁😂🤣😃😄😅😆😉😊😋😎😍😘🥰",
    ],
)
async def test_passwords_work_exactly_as_typed(api: httpx.AsyncClient, signing_key: str, password: str) -> None:
    """What was typed at sign-up signs in, and nothing near it does (ASVS 6.2.8)."""
    assert (await api.post(SIGNUP, json={"email": "mia@example.com", "password": password})).status_code == 201
    for given, status in (
        (password, 200),
        (password[:-1], 401),
        (f"{password} ", 401),
        (password.swapcase() + "x", 401),
    ):
        answer = await api.post(SIGNIN, json={"email": "MIA@example.com", "password": given})
        assert answer.status_code == status, given


async def test_refused_sign_ins_are_equal_bytes(api: httpx.AsyncClient, signing_key: str) -> None:
    """Unknown, wrong, inactive and overlong give the same status, headers and body, but for the request id."""
    await api.post(SIGNUP, json={"email": "mia@example.com", "password": PASSWORD})
    await api.post(SIGNUP, json={"email": "gone@example.com", "password": PASSWORD})
    await User.objects.filter(email="gone@example.com").aupdate(is_active=False)
    seen = set()
    for email, password in (
        ("nobody@example.com", PASSWORD),
        ("mia@example.com", "wrong"),
        ("gone@example.com", PASSWORD),
        ("mia@example.com", "x" * 2000),
        ("no address at all", PASSWORD),
    ):
        answer = await api.post(SIGNIN, json={"email": email, "password": password}, headers={"X-Request-ID": "same"})
        assert answer.status_code == 401
        seen.add((answer.content, tuple(answer.headers.items())))
    assert len(seen) == 1


async def test_me_is_read_changed_and_deleted(
    api: httpx.AsyncClient, member: dict[str, Any], pair: dict[str, Any]
) -> None:
    """A change of the name is visible at once; after deletion the token is worth nothing and cookies are cleared."""
    header = {"Authorization": f"Bearer {pair['access_token']}"}
    assert (await api.get(ME, headers=header)).json() == {name: member[name] for name in USER_FIELDS} | {"acting": None}
    changed = await api.patch(ME, json={"name": "Zoë", "is_staff": True, "email": "x@example.com"}, headers=header)
    assert changed.status_code == 200
    said = changed.json()
    assert said["updated_at"] > member["updated_at"]
    assert said == {name: member[name] for name in USER_FIELDS} | {
        "name": "Zoë", "acting": None, "updated_at": said["updated_at"],
    }  # fmt: skip
    assert (await api.get(ME, headers=header)).json()["name"] == "Zoë"
    assert (await api.patch(ME, json={}, headers=header)).json()["name"] == "Zoë"
    assert _bad_fields(await api.patch(ME, json={"name": "a\x00"}, headers=header)) == {"name"}
    assert _bad_fields(await api.request("DELETE", ME, json={}, headers=header)) == {"password"}
    wrong = await api.request("DELETE", ME, json={"password": "wrong"}, headers=header)
    assert (wrong.status_code, wrong.json()["code"]) == (401, "invalid_credentials")
    gone = await api.request("DELETE", ME, json={"password": member["password"]}, headers=header)
    assert (gone.status_code, gone.content) == (204, b"")
    assert gone.headers.get_list("set-cookie")[0].startswith("access_token=")
    assert (await api.get(ME, headers=header)).status_code == 401
    assert (await api.post(SIGNIN, json={"email": member["email"], "password": member["password"]})).status_code == 401


async def test_me_needs_a_credential(api: httpx.AsyncClient) -> None:
    """Every method of /me answers 401 with a challenge to strangers."""
    for method in ("GET", "PATCH", "DELETE"):
        answer = await api.request(method, ME, json={})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_sign_up_ignores_credentials_sent_along(api: httpx.AsyncClient) -> None:
    """A stale or broken token in the browser does not keep anybody from signing up."""
    headers = {"Authorization": "Bearer broken", "Cookie": "access_token=broken"}
    answer = await api.post(SIGNUP, json={"email": "mia@example.com", "password": PASSWORD}, headers=headers)
    assert answer.status_code == 201


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "TRACE"])
async def test_other_methods_are_405(api: httpx.AsyncClient, method: str) -> None:
    """Sign-up is a POST and nothing else."""
    answer = await api.request(method, SIGNUP)
    assert answer.status_code == 405
    assert "POST" in answer.headers["allow"]


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 20_000, "application/json", 400),
        (b'"text"', "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"email": "\\ud800@example.com", "password": "x"}', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"email=a", "application/x-www-form-urlencoded", 415),
        (b"<x/>", "text/xml", 415),
        (b'{"password": "' + b"x" * 10_000_000 + b'"}', "application/json", 413),
    ],
)
async def test_malformed_bodies_are_refused(api: httpx.AsyncClient, body: bytes, media_type: str, status: int) -> None:
    """Nothing a stranger can send is a 5xx, and every refusal is a problem document."""
    answer = await api.post(SIGNUP, content=body, headers={"Content-Type": media_type})
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("application/problem+json")


async def test_deactivation_in_the_database_ends_access(
    api: httpx.AsyncClient, member: dict[str, Any], sign_in: SignIn
) -> None:
    """A deactivated person's token is refused at once in this process (ASVS 7.4.2)."""
    user = await User.objects.aget(pk=member["id"])
    header = await sign_in(user)
    assert (await api.get(ME, headers=header)).status_code == 200
    await User.objects.filter(pk=user.pk).aupdate(is_active=False)
    assert (await api.get(ME, headers=header)).status_code == 401
    await User.objects.filter(pk=user.pk).aupdate(is_active=True)
    assert (await api.get(ME, headers=header)).status_code == 401, "activation revives no session"


def test_views_are_async_and_input_has_no_orm() -> None:
    """Handlers are coroutines, and the sign-up input knows no model (lessons 5.2)."""
    assert SignupView.view_is_async
    assert MeView.view_is_async
    assert not hasattr(SignupInput.Meta if hasattr(SignupInput, "Meta") else object, "model")
