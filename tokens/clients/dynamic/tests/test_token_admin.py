"""Registration tokens in the admin: made and shown once, listed with what came of them, ended; each with its right."""

import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.admin.made_once import signed_id
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from tokens.clients.dynamic.models import Registration, RegistrationToken
from tokens.clients.models import digest_of
from tokens.oauth.tests.material import make_public_client

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("rs256_key")]

LIST, ADD = "admin:tokens_registrationtoken_changelist", "admin:tokens_registrationtoken_add"
PAGE = "admin:tokens_registrationtoken_change"
Browser = Callable[..., Client]


@pytest.fixture
def browser() -> Browser:
    """Return how one of staff signs in with these rights over clients alone."""

    def sign_in(*acts: str) -> Client:
        user = User.objects.create_user(f"{uuid.uuid4().hex}@example.com", PASSWORD, is_staff=True)
        names = [f"{act}_oauthclient" for act in acts]
        user.user_permissions.set(Permission.objects.filter(codename__in=names))
        client = Client()
        client.force_login(user)
        return client

    return sign_in


def filled(**changes: Any) -> dict[str, Any]:
    return {"label": "Team", "uses": 2, "days": 7, "new_id": signed_id(new_id()), **changes}


def shown_in(page: str) -> list[str]:
    return re.findall(r'<code data-copied="token">([^<]+)</code>', page)


def stored(**fields: Any) -> RegistrationToken:
    given = {"label": "Team", "digest": digest_of(uuid.uuid4().hex), "left": 1, **fields}
    return RegistrationToken.objects.create(**{"expires_at": clock.now() + timedelta(days=1), **given})


def test_made_and_shown_once(browser: Browser) -> None:
    """The answer has the token, what is stored opens nothing, and neither the list nor its page shows it again."""
    mia = browser("view", "add")
    before = clock.now()
    sent = filled()
    answer = mia.post(reverse(ADD), sent)
    (token,) = shown_in(answer.content.decode())
    assert "no-store" in answer["Cache-Control"]
    row = RegistrationToken.objects.get()
    assert (row.digest, row.left, row.label) == (digest_of(token), 2, "Team")
    assert timedelta(days=7) <= row.expires_at - before <= timedelta(days=7, minutes=1)
    event = AuditEvent.objects.get(event="registration_token_made")
    assert event.details == {"token": str(row.pk), "label": "Team", "uses": 2}
    assert event.actor_id == User.objects.get(pk=mia.session["_auth_user_id"]).pk
    for page in (reverse(LIST), reverse(PAGE, args=[row.pk])):
        assert token not in mia.get(page).content.decode()
    again = mia.post(reverse(ADD), sent, follow=True).content.decode()  # the page is loaded again
    assert "has been made already" in again
    assert shown_in(again) == []
    assert RegistrationToken.objects.count() == AuditEvent.objects.filter(event="registration_token_made").count() == 1


@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({"label": "a" * 80, "uses": 1_000, "days": 365}, True),
        ({"uses": 1, "days": 1}, True),
        ({"new_id": "x"}, True),  # an id that this server has not proposed is none
        ({"label": "a" * 81}, False),
        ({"label": " "}, False),
        ({"label": "a\tb"}, False),
        ({"uses": 0}, False),
        ({"uses": 1_001}, False),
        ({"days": 0}, False),
        ({"days": 366}, False),
    ],
)
def test_bounds(browser: Browser, changes: dict[str, Any], made: bool) -> None:
    """Those of the API, both sides; a refused form makes nothing and leaves no event."""
    answer = browser("view", "add").post(reverse(ADD), filled(**changes)).content.decode()
    assert bool(shown_in(answer)) is made
    assert RegistrationToken.objects.count() == made
    assert AuditEvent.objects.filter(event="registration_token_made").count() == made


def test_what_became_of_each(browser: Browser) -> None:
    """The list says what is left and who came; the filter takes its own three values, and no lookup of a digest."""
    usable, empty = stored(label="Usable one"), stored(label="Empty one", left=0)
    stored(label="Old one", expires_at=clock.now())
    client = make_public_client(profile="agent", origin="registered", name="Note taker")
    Registration.objects.create(client=client, digest=digest_of("x"), token=empty)
    mia = browser("view")
    for state, label in (("usable", "Usable one"), ("used_up", "Empty one"), ("expired", "Old one")):
        listed = mia.get(reverse(LIST), {"state": state}).content.decode()
        assert [one for one in ("Usable one", "Empty one", "Old one") if one in listed] == [label]
    assert mia.get(reverse(LIST), {"state": "other"}).status_code == 302
    assert mia.get(reverse(LIST), {"digest__startswith": usable.digest[:2]}).status_code == 400
    page = mia.get(reverse(PAGE, args=[empty.pk])).content.decode()
    assert "Note taker" in page
    assert reverse("admin:tokens_oauthclient_change", args=[client.pk]) in page
    assert empty.digest not in page


def test_ended(browser: Browser) -> None:
    """After a question; one event each. Who came by it stays."""
    row, other = stored(label="Team A"), stored(label="Team B")
    client = make_public_client(profile="agent", origin="registered")
    Registration.objects.create(client=client, digest=digest_of("x"), token=row)
    mia = browser("view", "change")
    sent = {"action": "end_tokens", "_selected_action": [str(row.pk)]}
    asked = mia.post(reverse(LIST), sent).content.decode()
    assert "Team A" in asked
    assert "Team B" not in asked
    assert RegistrationToken.objects.count() == 2
    done = mia.post(reverse(LIST), {**sent, "confirmed": "yes"}, follow=True).content.decode()
    assert "1 token ended." in done
    assert list(RegistrationToken.objects.all()) == [other]
    assert Registration.objects.get().token is None
    assert [event.details for event in AuditEvent.objects.filter(event="registration_token_ended")] == [
        {"token": str(row.pk), "label": "Team A"}
    ]


def test_each_act_needs_its_right(browser: Browser) -> None:
    """To see, to make and to end are three rights over clients; none of them comes with another."""
    row = stored()
    page, end = reverse(PAGE, args=[row.pk]), {"action": "end_tokens", "_selected_action": [str(row.pk)]}
    seer = browser("view", "delete")
    assert seer.get(page).status_code == 200
    assert 'value="End"' not in seer.get(page).content.decode()
    assert seer.post(reverse(ADD), filled()).status_code == 403
    seer.post(reverse(LIST), {**end, "confirmed": "yes"})
    assert RegistrationToken.objects.count() == 1
    maker = browser("add")
    assert maker.get(page).status_code == 403
    assert shown_in(maker.post(reverse(ADD), filled()).content.decode())
    assert 'value="End"' in browser("view", "change").get(page).content.decode()
    assert browser().get(reverse(LIST)).status_code == 403


@pytest.mark.parametrize(("registration", "said"), [("closed", True), ("token", False), ("open", False)])
def test_where_registration_is_closed_the_form_says_so(
    browser: Browser, settings: Settings, registration: str, said: bool
) -> None:
    """A token that opens nothing is no surprise."""
    settings.IRONAUTH_REGISTRATION = registration
    assert ("opens nothing until" in browser("add").get(reverse(ADD)).content.decode()) is said
