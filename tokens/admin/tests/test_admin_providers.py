"""Sign-in providers in the admin and by command: a superuser's alone, with secrets that no page shows."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event
from accounts.federation.models import UpstreamProvider
from accounts.federation.secrets import unsealed
from accounts.users.models import User
from tokens.upstream import discovery
from tokens.upstream.tests.provider import FakeProvider, served

pytestmark = pytest.mark.django_db

LIST, ADD = "admin:accounts_upstreamprovider_changelist", "admin:accounts_upstreamprovider_add"
TYPED = {
    "name": "Acme",
    "slug": "acme",
    "kind": "oidc",
    "issuer": "https://acme.example",
    "client_id": "us",
    "secret": "s3cret of a provider",
    "enabled": "on",
    "creates_accounts": "on",
    "domains": "Acme.example\n",
}


def browser(*, superuser: bool) -> Client:
    """Return the browser of somebody of staff; without being a superuser they hold every permission there is."""
    user = User.objects.create_user(email=f"{superuser}@example.com", is_staff=True, is_superuser=superuser)
    user.user_permissions.set(Permission.objects.all())
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def there(settings: Settings) -> Iterator[FakeProvider]:
    """A provider on this machine."""
    settings.DEBUG = True
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    discovery.forget()
    with served(FakeProvider) as provider:
        yield provider


def test_made_and_changed_by_a_superuser() -> None:
    """The secret is sealed and on no page; an empty one keeps it, a new one replaces it; each leaves an event."""
    root = browser(superuser=True)
    assert root.post(reverse(ADD), TYPED).status_code == 302
    provider = UpstreamProvider.objects.get()
    assert (provider.domains, provider.trusts_email, unsealed(provider)) == (["acme.example"], False, TYPED["secret"])
    page = reverse("admin:accounts_upstreamprovider_change", args=[provider.pk])
    shown = root.get(page).content.decode()
    assert TYPED["secret"] not in shown
    assert "/oauth/upstream/acme" in shown
    changed = {name: value for name, value in TYPED.items() if name not in ("slug", "secret")} | {"name": "Acme Inc."}
    assert root.post(page, changed).status_code == 302
    provider.refresh_from_db()
    assert (provider.name, provider.slug, unsealed(provider)) == ("Acme Inc.", "acme", TYPED["secret"])
    assert root.post(page, {**changed, "secret": "another"}).status_code == 302
    provider.refresh_from_db()
    assert unsealed(provider) == "another"
    events = AuditEvent.objects.filter(event=Event.PROVIDER_CHANGED)
    assert [event.details["act"] for event in events] == ["changed", "changed", "added"]
    assert "another" not in str([event.details for event in events])


def test_others_of_staff_see_nothing_of_it() -> None:
    """Who sets what a provider is trusted with could sign in as anybody: permissions do not suffice."""
    provider = UpstreamProvider.objects.create(slug="acme", name="Acme", kind="oidc", issuer="https://acme.example")
    clerk = browser(superuser=False)
    for path in (reverse(LIST), reverse(ADD), reverse("admin:accounts_upstreamprovider_change", args=[provider.pk])):
        assert clerk.get(path).status_code == 403
        assert clerk.post(path, TYPED).status_code == 403
    assert UpstreamProvider.objects.get().client_id == ""


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"issuer": "http://acme.example"}, "https address"),
        ({"issuer": ""}, "https address"),
        ({"secret": ""}, "Give the client secret"),
        ({"slug": "Ac me"}, "small letters"),
        ({"kind": "unknown"}, "Select a valid choice"),
        ({"domains": "someone@acme.example"}, "is no domain"),
    ],
)
def test_what_the_form_refuses(typed: dict[str, str], words: str) -> None:
    """Each with the remedy; nothing is stored, and what was typed stays but for the secret."""
    page = browser(superuser=True).post(reverse(ADD), {**TYPED, **typed})
    assert page.status_code == 200
    assert words in page.content.decode()
    assert TYPED["secret"] not in page.content.decode()
    assert not UpstreamProvider.objects.exists()


@pytest.mark.parametrize(("issuer", "words"), [("", "It answers, with 1 keys"), ("/nowhere", "It does not answer")])
def test_try_now(there: FakeProvider, issuer: str, words: str) -> None:
    """The provider is asked now, and the list says what it answered."""
    there.document = {"authorization_endpoint": f"{there.issuer}/authorize"}
    provider = UpstreamProvider.objects.create(slug="acme", name="Acme", kind="oidc", issuer=there.issuer + issuer)
    sent = {"action": "try_now", "_selected_action": [str(provider.pk)]}
    page = browser(superuser=True).post(reverse(LIST), sent, follow=True)
    assert words in page.content.decode()


def command(*arguments: str, secret: str = "", monkeypatch: Any = None) -> str:
    """Run the command; return what it prints."""
    out = io.StringIO()
    if monkeypatch is not None:
        monkeypatch.setattr("sys.stdin", io.StringIO(secret))
    call_command("upstream_provider", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("debug", "issuer", "given_port", "hinted"),
    [
        (True, "http://localhost:8000", "", True),
        (True, "http://localhost:8000", "8000", False),  # somebody has set the port
        (True, "http://localhost:8001", "", False),  # or the issuer
        (False, "http://localhost:8000", "", False),
    ],
)
def test_the_command_says_whose_address_it_is(
    monkeypatch: pytest.MonkeyPatch, there: FakeProvider, settings: Settings, debug: bool, issuer: str,
    given_port: str, hinted: bool,
) -> None:  # fmt: skip
    """Adding and trying name the setting behind the redirect URI; how a port is remembered, where none was given."""
    monkeypatch.delenv("IRONAUTH_SERVE_PORT", raising=False)
    if given_port:
        monkeypatch.setenv("IRONAUTH_SERVE_PORT", given_port)
    settings.DEBUG, settings.IRONAUTH_ISSUER, settings.IRONAUTH_SERVE_PORT = debug, issuer, 8000
    where = there.issuer if debug else "https://login.acme.example"  # without DEBUG none on this machine is asked
    given = ("add", "acme", "--issuer", where, "--client-id", "us")
    added = command(*given, secret="s3cret\n", monkeypatch=monkeypatch)
    for told in (added, command("try", "acme")) if debug else (added,):
        assert f"{issuer}/oauth/upstream/acme\n" in told
        assert f"IRONAUTH_ISSUER, which is {issuer}" in told
        assert ("IRONAUTH_SERVE_PORT=8765" in told) is hinted


def test_by_command(monkeypatch: pytest.MonkeyPatch, there: FakeProvider) -> None:
    """Added with a secret from standard input, tried, switched off and on, listed."""
    given = ("add", "acme", "--issuer", there.issuer, "--client-id", "us", "--domain", "Acme.example")
    with pytest.raises(CommandError, match="standard input"):
        command(*given, monkeypatch=monkeypatch)
    assert "/oauth/upstream/acme" in command(*given, secret="s3cret\n", monkeypatch=monkeypatch)
    provider = UpstreamProvider.objects.get()
    assert (unsealed(provider), provider.domains, provider.trusts_email) == ("s3cret", ["acme.example"], False)
    assert "It answers" in command("try", "acme")
    command("disable", "acme")
    assert "disabled" in command("list")
    command("enable", "acme")
    assert "enabled" in command("list")
    with pytest.raises(CommandError, match="upstream_provider list"):
        command("try", "other")
    with pytest.raises(CommandError, match="https address"):
        command("add", "plain", "--issuer", "http://acme.example", "--client-id", "us", monkeypatch=monkeypatch)
