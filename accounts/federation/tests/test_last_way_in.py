"""The last way to sign in stays, whichever kind it is, and however many removals come at once."""

import os
import re
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.db.models import F
from pytest_django import Settings

from accounts.conftest import MakeUser, SignIn
from accounts.errors import LastWayIn
from accounts.federation import removal as federation
from accounts.federation.models import Identity, UpstreamProvider
from accounts.mfa.passkeys import removal as passkeys
from accounts.mfa.passkeys.models import Passkey
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.tests.at_once import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

PASSKEYS, IDENTITIES = "/api/v1/access/mfa/passkeys", "/api/v1/access/identities"


@pytest.fixture
def person(make_user: MakeUser) -> User:
    """Somebody whose address is proved; a password is theirs until a test takes it."""
    return make_user(email="ann@example.com", email_verified_at=clock.now())


def take_password(user: User) -> None:
    """Leave them without a password, and their session alive."""
    User.objects.filter(pk=user.pk).update(password=make_password(None), session_epoch=F("session_epoch"))


def passkey_of(user: User) -> Passkey:
    """Give them a passkey."""
    return Passkey.objects.create(
        user=user, name="Key", credential_id=os.urandom(16), public_key=b"k", sign_count=0, aaguid=uuid.uuid4(),
        backup_eligible=False, backed_up=False, transports="",
    )  # fmt: skip


def identity_of(user: User, *, slug: str = "acme", enabled: bool = True) -> Identity:
    """Give them an identity."""
    issuer = f"https://{slug}.example"
    provider = UpstreamProvider.objects.create(
        slug=slug, name=slug.title(), issuer=issuer, client_id="a", enabled=enabled
    )
    return Identity.objects.create(user=user, provider=provider, issuer=issuer, subject="ann")


def remove_passkey(passkey: Passkey) -> None:
    """Remove it, as its owner does."""
    with transaction.atomic():
        assert passkeys.remove(user_id=passkey.user_id, passkey_id=passkey.pk, session_id=None)


def remove_identity(identity: Identity) -> None:
    """Remove it, as its owner does."""
    with transaction.atomic():
        federation.unlink(user_id=identity.user_id, identity_id=identity.pk, session_id=None)


def test_the_last_passkey_stays(person: User) -> None:
    """Of two the first goes and the second stays."""
    first, second = passkey_of(person), passkey_of(person)
    take_password(person)
    remove_passkey(first)
    with pytest.raises(LastWayIn):
        remove_passkey(second)
    assert Passkey.objects.get() == second


def test_one_of_each_kind(person: User) -> None:
    """The identity goes while there is a passkey, and then the passkey stays; the other way round too."""
    identity, passkey = identity_of(person), passkey_of(person)
    take_password(person)
    remove_identity(identity)
    with pytest.raises(LastWayIn):
        remove_passkey(passkey)
    again = identity_of(person, slug="other")
    remove_passkey(passkey)
    with pytest.raises(LastWayIn):
        remove_identity(again)
    assert (Passkey.objects.count(), Identity.objects.count()) == (0, 1)


def test_an_identity_that_opens_nothing_is_no_way_in(person: User) -> None:
    """At a provider that is switched off it does not stand in for the passkey; switched on it does."""
    identity, passkey = identity_of(person, enabled=False), passkey_of(person)
    take_password(person)
    with pytest.raises(LastWayIn):
        remove_passkey(passkey)
    UpstreamProvider.objects.filter(pk=identity.provider_id).update(enabled=True)
    remove_passkey(passkey)


def test_a_password_or_a_code_by_mail_is_a_way_in(person: User, settings: Settings) -> None:
    """With a password each goes; without one, where a code by mail signs in, and the address is proved."""
    remove_passkey(passkey_of(person))
    take_password(person)
    passkey = passkey_of(person)
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    User.objects.update(email_verified_at=None)
    with pytest.raises(LastWayIn):
        remove_passkey(passkey)
    User.objects.update(email_verified_at=clock.now())
    remove_passkey(passkey)


def test_anothers_ways_do_not_count(person: User, make_user: MakeUser) -> None:
    """What others have is no way in of this person's."""
    other = make_user()
    passkey_of(other)
    identity_of(other)
    mine = passkey_of(person)
    take_password(person)
    with pytest.raises(LastWayIn):
        remove_passkey(mine)


@pytest.mark.parametrize("kinds", ["passkeys", "both"])
def test_of_all_at_once_one_stays(person: User, kinds: str) -> None:
    """Each way is removed at the same moment as all the others: one is refused, and left."""
    acts: list[Callable[[], None]] = [partial(remove_passkey, passkey_of(person)) for _ in range(3)]
    if kinds == "both":
        acts.append(partial(remove_identity, identity_of(person)))
    take_password(person)
    refused = [one for one in at_once(*acts) if one is not None]
    assert list(map(type, refused)) == [LastWayIn]
    assert Passkey.objects.count() + Identity.objects.count() == 1


async def test_by_api_and_page(api: httpx.AsyncClient, person: User, sign_in: SignIn) -> None:
    """Both are 409 by the API, and the account's page says why; the passkey goes once there is another way."""
    headers = await sign_in(person)
    passkey = await sync_to_async(passkey_of)(person)
    await sync_to_async(take_password)(person)
    refused = await api.delete(f"{PASSKEYS}/{passkey.pk}", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (409, "last_way_in")
    assert await by_page(api, headers, passkey) == (409, True)
    identity = await sync_to_async(identity_of)(person)
    assert (await api.delete(f"{PASSKEYS}/{passkey.pk}", headers=headers)).status_code == 204
    refused = await api.delete(f"{IDENTITIES}/{identity.pk}", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (409, "last_way_in")
    assert (await api.delete(f"{PASSKEYS}/{uuid.uuid4()}", headers=headers)).status_code == 404


async def by_page(api: httpx.AsyncClient, headers: dict[str, str], passkey: Passkey) -> tuple[int, bool]:
    """Remove it on the account's page; return the status, and whether the page says why not."""
    token = headers["Authorization"].removeprefix("Bearer ")
    browser: dict[str, Any] = {"headers": {"cookie": f"access_token={token}", "sec-fetch-site": "same-origin"}}
    address = f"/account/security/passkeys/{passkey.pk}"
    shown = await api.get(address, **browser)
    form = re.search(r'name="form" value="([^"]+)"', shown.text)
    assert form is not None, shown.text
    answer = await api.post(address, data={"form": form[1], "act": "remove"}, **browser)
    return answer.status_code, "Set a password or add another way to sign in first" in answer.text
