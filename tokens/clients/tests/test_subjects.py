"""Who a person is to clients: one id for public ones, another in each sector."""

import secrets
import uuid
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from ironauth.infrastructure.crypto.sealing import SealBrokenError
from tokens.clients import subjects
from tokens.clients.models import OAuthClient
from tokens.clients.registry import Client, read_client
from tokens.keys import pairwise
from tokens.keys.pairwise import PairwiseSalt
from tokens.keys.units import create_first_keys

pytestmark = [pytest.mark.django_db]


def client(*redirect_uris: str, **fields: Any) -> Client:
    """Return a new pairwise client as requests see it."""
    row = OAuthClient.objects.create(
        name="App", subject_type="pairwise", redirect_uris=redirect_uris or ["https://app.example/cb"], **fields
    )
    found = read_client(row.pk)
    assert found is not None
    return found


def test_public() -> None:
    """A public client knows people by their id."""
    row = OAuthClient.objects.create(name="App")
    found = read_client(row.pk)
    assert found is not None
    user_id = uuid.uuid4()
    assert subjects.subject_of(found, user_id) == str(user_id)
    assert subjects.user_of(found, user_id) == user_id
    assert not PairwiseSalt.objects.exists()


def test_pairwise() -> None:
    """In one sector a person is the same, in another one somebody else, and nowhere the id."""
    one, same, other = client(), client("https://app.example/other"), client("https://shop.example/cb")
    user_id = uuid.uuid4()
    subject = subjects.subject_id(one, user_id)
    assert subject == subjects.subject_id(one, user_id) == subjects.subject_id(same, user_id)
    assert len({subject, subjects.subject_id(other, user_id), user_id}) == 3
    assert subjects.user_of(one, subject) == user_id
    assert subjects.user_of(other, subject) != user_id
    assert uuid.UUID(subjects.subject_of(one, user_id)) == subject


def test_sessions() -> None:
    """An SSO session has another name in each sector, and its own for a public client."""
    one, same, other = client(), client("https://app.example/other"), client("https://shop.example/cb")
    row = OAuthClient.objects.create(name="App")
    public = read_client(row.pk)
    assert public is not None
    session_id = uuid.uuid4()
    sids = [uuid.UUID(subjects.sid_of(each, session_id)) for each in (one, other, public)]
    assert len(set(sids)) == 3
    assert subjects.sid_of(same, session_id) == str(sids[0])
    assert [subjects.session_of(each, sid) for each, sid in zip((one, other, public), sids, strict=True)] == (
        [session_id] * 3
    )
    assert sids[2] == session_id


def test_neighbours_are_not_recognised() -> None:
    """Ids made in one moment begin alike; what clients see of them does not."""
    found = client()
    neighbours = [uuid.UUID(int=(0x01A2_0098_0E86_7554 << 64) + at) for at in range(50)]
    assert len({subjects.subject_id(found, user_id).bytes[:4] for user_id in neighbours}) == 50


@pytest.mark.parametrize(
    ("uris", "sector", "expected"),
    [
        (["https://app.example/cb"], "", "app.example"),
        (["https://app.example/cb", "https://app.example:8443/b"], "", "app.example"),
        (["https://app.example/cb", "https://b.example/cb"], "group.example", "group.example"),
        (["https://app.example/cb"], "group.example", "group.example"),
        (["https://app.example/cb", "https://b.example/cb"], "", None),
        (["com.example.app:/cb"], "", None),
        ([], "", None),
    ],
)
def test_sector(uris: list[str], sector: str, expected: str | None) -> None:
    """The named sector, else the one host, else the client alone (OpenID Connect Core §8.1)."""
    row = OAuthClient.objects.create(name="App", subject_type="pairwise", redirect_uris=uris, sector=sector)
    assert OAuthClient.objects.get(pk=row.pk).sector == (expected or str(row.pk))


def test_a_moved_client_knows_its_people() -> None:
    """A sector is settled when the client becomes pairwise: another redirect host later changes no ``sub``."""
    row = OAuthClient.objects.create(name="App", redirect_uris=["https://app.example/cb"])
    row.subject_type = OAuthClient.Subject.PAIRWISE
    row.save(update_fields=["subject_type"])
    before = read_client(row.pk)
    row.redirect_uris = ["https://moved.example/cb"]
    row.save()
    after = read_client(row.pk)
    assert before is not None
    assert after is not None
    assert before.sector_key == after.sector_key != b""


def test_the_salt_outlives_the_master_key() -> None:
    """A newer master key takes the salt over, the older one can go, and everybody stays who they are."""
    before = client().sector_key
    create_first_keys()
    ring = {"t2": secrets.token_bytes(32), **settings.IRONAUTH_MASTER_KEYS}
    with override_settings(IRONAUTH_MASTER_KEYS=ring):
        create_first_keys()
    with override_settings(IRONAUTH_MASTER_KEYS={"t2": ring["t2"]}):
        assert client().sector_key == before


def test_one_salt() -> None:
    """A second client finds the salt of the first; it is nowhere in clear."""
    first = client().sector_key
    row = PairwiseSalt.objects.get()
    pairwise.make_salt()
    assert client().sector_key == first
    assert row.salt not in bytes(row.sealed)
    row.sealed = bytes(60)
    row.save()
    with pytest.raises(SealBrokenError):
        client()
