"""An identity that waits in a browser: linked there alone, once, to the person who signs in."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.db.models import QuerySet

from accounts.conftest import MakeUser
from accounts.federation import queries, units
from accounts.federation.errors import UpstreamRefused
from accounts.federation.kinds.kind import UpstreamPerson
from accounts.federation.models import SUBJECT_CHARACTERS, URI_CHARACTERS, Identity, UpstreamProvider, UpstreamSignIn
from accounts.users.models import User
from ironauth.infrastructure.core import clock

pytestmark = [pytest.mark.django_db, pytest.mark.storage]

LIFE_S = 600


@pytest.fixture
def person(make_user: MakeUser) -> User:
    """Somebody who signs in in the browser where the identity waits."""
    return make_user(email="ann@example.com", email_verified_at=clock.now())


@pytest.fixture
def waiting() -> UpstreamSignIn:
    """An identity that a provider has confirmed in the browser "hers"."""
    provider = UpstreamProvider.objects.create(
        slug="p",
        name="P",
        kind="oidc",
        issuer="https://p.example",
        client_id="c",
        sealed_secret=b"",
        master_key_id="t1",
    )
    queries.begin(state="s", browser="hers", provider_id=provider.pk, user_id=None, page="", life_s=LIFE_S)
    UpstreamSignIn.objects.update(issuer="https://p.example", subject="7", email="ann@example.com")
    return UpstreamSignIn.objects.get()


def link(person: User, waiting: UpstreamSignIn, browser: str = "hers") -> units.LinkedIdentity | None:
    """Have the person sign in in a browser with this cookie."""
    with transaction.atomic():
        return units.link_waiting(user_id=person.pk, waiting_id=waiting.pk, browser=browser)


def disabled() -> None:
    """Switch the provider off."""
    UpstreamProvider.objects.update(enabled=False)


def deactivated() -> None:
    """Switch the person off, by hand."""
    QuerySet(User).update(is_active=False)


def unconfirmed() -> None:
    """Let the provider have said nothing yet."""
    UpstreamSignIn.objects.update(subject="")


def nothing() -> None:
    """Change nothing."""


def test_it_is_linked_in_its_browser_once(person: User, waiting: UpstreamSignIn) -> None:
    """The person gets it where it waits, and it waits no longer."""
    shown = link(person, waiting)
    assert shown is not None
    assert (shown.subject, shown.is_new, Identity.objects.get().user_id) == ("7", True, person.pk)
    assert link(person, waiting) is None


@pytest.mark.parametrize("browser", ["his", "", "hers "])
def test_another_browser_links_nothing(person: User, waiting: UpstreamSignIn, browser: str) -> None:
    """Who makes somebody sign in with a stranger's identity on the way needs that person's own browser for it."""
    assert link(person, waiting, browser) is None
    assert not Identity.objects.exists()
    assert link(person, waiting) is not None


@pytest.mark.parametrize(
    ("change", "late_s"),
    [(disabled, 0), (deactivated, 0), (unconfirmed, 0), (nothing, LIFE_S + 1)],
    ids=["provider off", "person off", "not confirmed", "too late"],
)
def test_what_has_ended_links_nothing(
    person: User, waiting: UpstreamSignIn, change: Callable[[], None], late_s: int
) -> None:
    """Not with a provider that was switched off, to an inactive account, before it is confirmed, or after its end."""
    change()
    with clock.shifted(late_s):
        assert link(person, waiting) is None
    assert not Identity.objects.exists()


def test_of_two_people_one_gets_it(person: User, waiting: UpstreamSignIn, make_user: MakeUser) -> None:
    """An identity that is somebody's already is linked to nobody else, and the account that signed in stays whole."""
    other = make_user(email="bob@example.com", email_verified_at=clock.now())
    Identity.objects.create(user=other, provider=waiting.provider, issuer=waiting.issuer, subject=waiting.subject)
    assert link(person, waiting) is None
    assert [one.user_id for one in Identity.objects.all()] == [other.pk]


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ({"subject": ""}, nothing),
        ({"subject": "7" * (SUBJECT_CHARACTERS + 1)}, nothing),
        ({"issuer": "https://p.example/" + "i" * URI_CHARACTERS}, nothing),
        ({}, disabled),
    ],
    ids=["nobody", "a long subject", "a long issuer", "provider off"],
)
def test_what_is_no_identity_opens_nothing(
    waiting: UpstreamSignIn, said: dict[str, Any], change: Callable[[], None]
) -> None:
    """What a provider says of nobody, in texts that no column holds, or after it was switched off, makes no account."""
    change()
    person = UpstreamPerson("https://p.example", "7", "new@example.com", email_verified=True)._replace(**said)
    with pytest.raises(UpstreamRefused):
        units.resolve(provider_id=waiting.provider_id, person=person, waiting_id=waiting.pk)
    assert not User.objects.exists()
    assert not Identity.objects.exists()
