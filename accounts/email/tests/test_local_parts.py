"""How long the part before the @ may be: 64 octets from now on (RFC 5321 §4.5.3.1.1); people who have more stay."""

from collections.abc import Callable

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from accounts import email_address as emails
from accounts.admin.tests.test_admin_step_up import form_of, page_of
from accounts.conftest import PASSWORD, MakeUser, SignIn
from accounts.email.tests.test_email_flows import NEW_PASSWORD, confirm, delivered
from accounts.users.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

ACCESS = "/api/v1/access"
LONGEST = f"{'a' * 64}@example.com"
TOO_LONG = f"{'a' * 65}@example.com"


@pytest.fixture
def settled(make_user: MakeUser, monkeypatch: pytest.MonkeyPatch) -> User:
    """Somebody whose account was made by an earlier release, which took longer ones."""
    with monkeypatch.context() as patch:
        patch.setattr(emails, "validate_new", emails.validate)
        return make_user(email=TOO_LONG, name="Mia", is_staff=True)


def refused_for(judge: Callable[[str], None], email: str) -> str | None:
    """Return the code by which the rule refuses this address; None when it takes it."""
    try:
        judge(emails.normalise(email))
    except ValidationError as error:
        return error.code
    return None


@pytest.mark.parametrize(
    ("longest", "one_more"),
    [
        ("a" * 64, "a" * 65),
        ("\u00e9" * 32, "\u00e9" * 32 + "a"),  # two octets each
        ("e\u0301" * 32, "e\u0301" * 32 + "a"),  # one character, as it is stored
        ("\u7528" * 21 + "a", "\u7528" * 21 + "aa"),  # three octets each
        (f'"{"a" * 62}"', f'"{"a" * 63}"'),  # the quotes are part of it
    ],
)
def test_octets_are_counted(longest: str, one_more: str) -> None:
    """64 octets of UTF-8 pass and 65 do not; what is looked up, or stored before, is not judged by it."""
    assert refused_for(emails.validate_new, f"{longest}@example.com") is None
    assert refused_for(emails.validate_new, f"{one_more}@example.com") == "email_too_long"
    assert refused_for(emails.validate, f"{one_more}@example.com") is None
    assert emails.lookup_key(f"{one_more}@example.com")


async def test_a_sign_up(api: httpx.AsyncClient) -> None:
    """Taken with 64, refused with 65, with the field and its code."""
    body = {"email": LONGEST, "password": PASSWORD}
    assert (await api.post(f"{ACCESS}/signup", json=body)).status_code == 201
    refused = await api.post(f"{ACCESS}/signup", json={**body, "email": TOO_LONG})
    assert refused.status_code == 400
    assert [(error["field"], error["code"]) for error in refused.json()["errors"]] == [("email", "email_too_long")]


async def test_another_address(api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn) -> None:
    """The same for one's own change, and for what staff write."""
    user = await sync_to_async(make_user)(email="root@example.com", is_superuser=True, is_staff=True)
    headers = await sign_in(user)
    for email, status in ((LONGEST, 202), (TOO_LONG, 400)):
        body = {"new_email": email, "password": PASSWORD}
        assert (await api.post(f"{ACCESS}/email", json=body, headers=headers)).status_code == status
    for email, statuses in ((LONGEST, (201, 200)), (TOO_LONG, (400, 400))):
        made = await api.post("/api/v1/users", json={"email": email}, headers=headers)
        other = await sync_to_async(make_user)()
        body = {"email": email.replace("a@", "b@")}
        changed = await api.patch(f"/api/v1/users/{other.pk}", json=body, headers=headers)
        assert (made.status_code, changed.status_code) == statuses


def test_a_superuser(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command takes 64 and refuses 65."""
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    call_command("createsuperuser", interactive=False, email=LONGEST, verbosity=0)
    with pytest.raises(CommandError, match="64 octets"):
        call_command("createsuperuser", interactive=False, email=TOO_LONG, verbosity=0)


def test_the_admin(client: Client, root: User, settled: User, make_user: MakeUser) -> None:
    """A form that gives a longer one is refused; one that leaves an old one as it is, is not."""

    def refusal(user: User, **fields: str) -> str:
        answer = client.post(page_of(user), form_of(user, **fields))
        return "" if answer.status_code == 302 else " ".join(answer.context["adminform"].form.errors["email"])

    other = make_user(email="other@example.com")
    assert refusal(other, email=LONGEST) == ""
    assert "at most 64 octets" in refusal(other, email=TOO_LONG.replace("a@", "b@"))
    assert refusal(settled, name="Mia Moss") == ""
    settled.refresh_from_db()
    assert (settled.email, settled.name) == (TOO_LONG, "Mia Moss")
    add = reverse("admin:accounts_user_add")
    data = {"usable_password": "false", "name": ""}
    assert client.post(add, {**data, "email": LONGEST.replace("a@", "c@")}).status_code == 302
    refused = client.post(add, {**data, "email": TOO_LONG.replace("a@", "c@")})
    assert "at most 64 octets" in refused.content.decode()


async def test_who_has_a_longer_one_gets_in(api: httpx.AsyncClient, settled: User, signing_key: str) -> None:
    """By password, in any case, to the API and the admin, and with a new password by mail; and the address is taken."""
    body = {"email": TOO_LONG.upper(), "password": PASSWORD}
    assert (await api.post(f"{ACCESS}/signin", json=body)).status_code == 200
    form = {"username": TOO_LONG, "password": PASSWORD, "next": "/admin/"}
    assert (await sync_to_async(Client().post)(reverse("admin:login"), form)).status_code == 302
    assert (await api.post(f"{ACCESS}/email/verify/resend", json={"email": TOO_LONG})).status_code == 202
    assert [recipient for recipient, _, _ in await delivered()] == [TOO_LONG]
    assert (await api.post(f"{ACCESS}/password/reset", json={"email": TOO_LONG})).status_code == 202
    ((recipient, _, token),) = await delivered()
    assert recipient == TOO_LONG
    assert token is not None
    assert (await confirm(api, token)).status_code == 204
    assert (await api.post(f"{ACCESS}/signin", json={**body, "password": NEW_PASSWORD})).status_code == 200
