"""Secrets at other providers move to the newest master key, with those of second factors."""

import secrets
from io import StringIO

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import override_settings

from accounts.federation.models import UpstreamProvider
from accounts.federation.secrets import reseal, seal_into, unsealed

pytestmark = pytest.mark.django_db


@pytest.fixture
def provider() -> UpstreamProvider:
    """Return a provider whose secret is sealed under the master key of now."""
    row = UpstreamProvider(slug="acme", name="Acme", kind="oidc", issuer="https://acme.example", client_id="us")
    seal_into(row, "s3cret")
    row.save()
    return row


def resealed(ring: dict[str, bytes]) -> str:
    """Run the command under these master keys; return what it prints."""
    out = StringIO()
    with override_settings(IRONAUTH_MASTER_KEYS=ring):
        call_command("reseal_secrets", stdout=out)
    return out.getvalue().strip()


def test_the_older_key_may_go(provider: UpstreamProvider) -> None:
    """Once resealed, the secret opens without the key that was there before; a second run has nothing to do."""
    newest = {"t2": secrets.token_bytes(32)}
    assert resealed(newest | settings.IRONAUTH_MASTER_KEYS) == "resealed=1 left=0 newest=t2"
    with override_settings(IRONAUTH_MASTER_KEYS=newest):
        assert unsealed(UpstreamProvider.objects.get()) == "s3cret"
    assert resealed(newest) == "resealed=0 left=0 newest=t2"


def test_what_is_lost_is_said(provider: UpstreamProvider) -> None:
    """A secret whose key is gone already is counted, named as a provider's, and left alone."""
    before = UpstreamProvider.objects.values().get()
    with pytest.raises(CommandError, match=r"1 secrets do not open.* of people \(0\) .* of providers \(1\)"):
        resealed({"t2": secrets.token_bytes(32)})
    assert UpstreamProvider.objects.values().get() == before


def test_another_secret_given_meanwhile_stays(provider: UpstreamProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who saves a provider while its secret is sealed anew keeps the new one."""

    def overtaken(row: UpstreamProvider) -> str:
        other = UpstreamProvider.objects.get()
        seal_into(other, "another")
        other.save()
        return "s3cret"

    monkeypatch.setattr("accounts.federation.secrets.unsealed", overtaken)
    ring = {"t2": secrets.token_bytes(32), **settings.IRONAUTH_MASTER_KEYS}
    with override_settings(IRONAUTH_MASTER_KEYS=ring):
        assert reseal(batch=10) == (0, 0)
        assert unsealed(UpstreamProvider.objects.get()) == "another"
