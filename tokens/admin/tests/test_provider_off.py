"""A provider switched off, moved or deleted: who is left without a way in is told first, and what began ends."""

import io
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.errors import InvalidCredentials
from accounts.federation.models import Identity, UpstreamProvider
from accounts.federation.secrets import seal_into, unsealed
from accounts.federation.tests.test_last_way_in import passkey_of
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions.models import Session
from tokens.sign_in import units as sign_ins
from tokens.sign_in.proofs import ByUpstream

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

SECRET = "s3cret of a provider"
LIST = "admin:accounts_upstreamprovider_changelist"


@pytest.fixture(autouse=True)
def _no_mailed_codes(settings: Settings) -> None:
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = False


@pytest.fixture
def root() -> Client:
    """The browser of a superuser."""
    client = Client()
    client.force_login(User.objects.create_superuser("root@example.com"))
    return client


@pytest.fixture
def provider() -> UpstreamProvider:
    return provider_of("acme")


def provider_of(slug: str) -> UpstreamProvider:
    row = UpstreamProvider(slug=slug, name=slug.title(), kind="oidc", issuer=f"https://{slug}.example", client_id="us")
    seal_into(row, SECRET)
    row.save()
    return row


def person(provider: UpstreamProvider, name: str, *, password: bool = False, proved: bool = True) -> User:
    """Somebody with an identity there."""
    user = User.objects.create_user(f"{name}@example.com", email_verified_at=clock.now() if proved else None)
    if not password:
        User.objects.filter(pk=user.pk).update(password=make_password(None))
    else:
        User.objects.filter(pk=user.pk).update(password="pbkdf2_sha256$1$a$b")
    Identity.objects.create(user=user, provider=provider, issuer=provider.issuer, subject=name)
    user.refresh_from_db()
    return user


def opened(user: User, amr: str = "fed") -> Session:
    end = clock.now() + timedelta(days=1)
    return Session.objects.create(
        user=user, epoch=user.session_epoch, amr=amr, master_key_id="1", idle_expires_at=end, absolute_expires_at=end
    )


def changed(client: Client, row: UpstreamProvider, **changes: str) -> Any:
    """Save the provider's page; a change to "" leaves the field out."""
    typed = {"name": row.name, "kind": row.kind, "issuer": row.issuer, "client_id": "us", "enabled": "on", **changes}
    page = reverse("admin:accounts_upstreamprovider_change", args=[row.pk])
    return client.post(page, {name: value for name, value in typed.items() if value})


def is_on(row: UpstreamProvider) -> bool:
    row.refresh_from_db()
    return row.enabled


# ---------------------------------------------------------------- switched off
def test_who_is_left_without_is_told_first(root: Client, provider: UpstreamProvider) -> None:
    """Who has a password, a passkey or another provider is not counted; who cannot be mailed is told apart."""
    person(provider, "ann")
    person(provider, "bob", proved=False)
    person(provider, "with-password", password=True)
    passkey_of(person(provider, "with-passkey"))
    other = provider_of("other")
    elsewhere = person(provider, "elsewhere")
    Identity.objects.create(user=elsewhere, provider=other, issuer=other.issuer, subject="e")
    User.objects.filter(pk=person(provider, "closed").pk).update(is_active=False)
    asked = changed(root, provider, enabled="")
    assert asked.status_code == 200
    words = "2 people have no other way to sign in, and no password. 1 can ask for a new password by mail; 1 cannot"
    assert words in asked.content.decode()
    assert is_on(provider)
    assert changed(root, provider, enabled="", leave_without_way_in="on").status_code == 302
    assert not is_on(provider)


def test_where_nobody_is_left_without_nobody_is_asked(root: Client, provider: UpstreamProvider) -> None:
    """Also where another provider is switched off already it does not count as a way in."""
    person(provider, "with-password", password=True)
    assert changed(root, provider, enabled="").status_code == 302
    assert not is_on(provider)
    other = provider_of("other")
    both = person(other, "both")
    Identity.objects.create(user=both, provider=provider, issuer=provider.issuer, subject="b")
    assert "1 person has no other way" in changed(root, other, enabled="").content.decode()
    assert is_on(other)


def test_what_began_there_ends(root: Client, provider: UpstreamProvider) -> None:
    """Of everybody; what began otherwise stays, and so does everything when another field changes."""
    ann, bob = person(provider, "ann", password=True), person(provider, "bob", password=True)
    other = provider_of("other")
    cleo = person(other, "cleo", password=True)
    ends, stays = [opened(ann), opened(bob), opened(bob, "fed otp mfa")], [opened(ann, "pwd"), opened(cleo)]
    assert changed(root, provider, name="Acme Inc.").status_code == 302
    assert not Session.objects.exclude(revoked_at=None).exists()
    assert changed(root, provider, enabled="").status_code == 302
    assert set(Session.objects.filter(revoked_at=None)) == set(stays)
    events = AuditEvent.objects.filter(event="session_ended")
    assert {(one.user_id, one.session_id) for one in events} == {(one.user_id, one.pk) for one in ends}
    assert {(one.details["reason"], one.details["provider"]) for one in events} == {("provider_switched_off", "acme")}
    assert User.objects.get(email="root@example.com").pk == events[0].actor_id


def test_by_command(provider: UpstreamProvider) -> None:
    """It refuses with the number, and goes on when it is told to; the sessions end."""
    session = opened(person(provider, "ann"))
    with pytest.raises(CommandError, match=r"1 person has no other way.*--leave-without-way-in"):
        call_command("upstream_provider", "disable", "acme", stdout=io.StringIO())
    assert is_on(provider)
    call_command("upstream_provider", "disable", "acme", "--leave-without-way-in", stdout=io.StringIO())
    assert not is_on(provider)
    session.refresh_from_db()
    assert session.revoke_reason == "ended_by_staff"


def test_only_what_is_switched_off_is_deleted(root: Client, provider: UpstreamProvider) -> None:
    """On its own page and in the list; so the question was asked before."""
    page = reverse("admin:accounts_upstreamprovider_delete", args=[provider.pk])
    chosen = {"action": "delete_selected", "_selected_action": [str(provider.pk)], "post": "yes"}
    assert root.post(page, {"post": "yes"}).status_code == 403
    assert "switch it off first" in root.post(reverse(LIST), chosen).content.decode()
    assert UpstreamProvider.objects.exists()
    assert changed(root, provider, enabled="").status_code == 302
    assert root.post(page, {"post": "yes"}).status_code == 302
    assert not UpstreamProvider.objects.exists()


# ---------------------------------------------------------------- another issuer
@pytest.mark.parametrize("move", [{"issuer": "https://evil.example"}, {"issuer": "https://acme.example/"}])
def test_another_issuer_demands_the_secret(root: Client, provider: UpstreamProvider, move: dict[str, str]) -> None:
    """The stored secret is for the issuer before: without a new one nothing changes; with one both do."""
    answer = changed(root, provider, **move)
    assert answer.status_code == 200
    assert "is sent to no other" in answer.content.decode()
    provider.refresh_from_db()
    assert (provider.issuer, unsealed(provider)) == ("https://acme.example", SECRET)
    assert changed(root, provider, **move, secret="another").status_code == 302
    provider.refresh_from_db()
    assert (provider.issuer, unsealed(provider)) == (move["issuer"], "another")


def test_another_kind_demands_it_too(root: Client, provider: UpstreamProvider) -> None:
    """A kind brings its own issuer."""
    assert "is sent to no other" in changed(root, provider, kind="google").content.decode()
    provider.refresh_from_db()
    assert provider.kind == "oidc"
    assert changed(root, provider, kind="google", secret="another").status_code == 302


def test_the_same_issuer_keeps_it(root: Client, provider: UpstreamProvider) -> None:
    """Any other field changes without the secret."""
    assert changed(root, provider, client_id="them").status_code == 302
    provider.refresh_from_db()
    assert (provider.client_id, unsealed(provider)) == ("them", SECRET)


def test_another_issuer_shuts_people_out_as_well(root: Client, provider: UpstreamProvider) -> None:
    """Their identities are of the issuer before: the question is asked, and what began there ends."""
    session = opened(person(provider, "ann"))
    move = {"issuer": "https://new.example", "secret": "another"}
    assert "1 person has no other way" in changed(root, provider, **move).content.decode()
    assert changed(root, provider, **move, leave_without_way_in="on").status_code == 302
    session.refresh_from_db()
    assert session.revoked_at is not None


# ---------------------------------------------------------------- at once
@pytest.mark.parametrize("by_identity", [True, False])
def test_while_people_sign_in(root: Client, provider: UpstreamProvider, by_identity: bool) -> None:
    """Sign-ins that were judged before it is switched off open nothing that lives after it: real threads, real rows."""
    people = [person(provider, f"p{n}", password=True) for n in range(6)]
    together = threading.Barrier(len(people) + 1)
    refused: list[bool] = []

    def sign_in(user: User) -> None:
        identity_id = user.identities.get().pk if by_identity else None
        proof = ByUpstream(user.pk, user.session_epoch, clock.now(), provider_id=provider.pk, identity_id=identity_id)
        together.wait()
        try:
            with transaction.atomic():
                sign_ins.open_session(proof, context=ClientContext(address="127.0.0.1", user_agent=""))
        except InvalidCredentials:
            refused.append(True)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=sign_in, args=(user,)) for user in people]
    for thread in threads:
        thread.start()
    together.wait()
    assert changed(root, provider, enabled="").status_code == 302
    for thread in threads:
        thread.join()
    assert not Session.objects.filter(revoked_at=None).exists()
    assert Session.objects.count() + len(refused) == len(people)
