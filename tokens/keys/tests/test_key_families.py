"""Signing keys for clients that cannot verify Ed25519: a life of their own, and no way into the API."""

import json
import time
from io import StringIO
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from cryptography.hazmat.primitives import serialization
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import override_settings
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey
from joserfc.jwk import KeySet as Published

from ironauth.infrastructure.core import clock
from tokens.access import codec
from tokens.clients.models import OAuthClient
from tokens.errors import InvalidToken, SigningKeyMissing
from tokens.keys import key_set
from tokens.keys.key_set import Family, KeyRecord, build_key_set, new_key_pair, private_key
from tokens.keys.models import SigningKey
from tokens.keys.store import key_store, read_records
from tokens.keys.units import PUBLISHED_BY_ALL_S, create_first_keys, drop, rotate
from tokens.keys.wrapping import unseal
from tokens.tests.material import NOW, b64, good_payload

pytestmark = [pytest.mark.django_db, pytest.mark.storage]

OTHERS = [Family.ES256, Family.RS256]


def in_state(state: str, family: Family) -> str:
    """Return the kid of the one key of a family in this state."""
    return SigningKey.objects.get(state=state, family=family).kid


def run(*arguments: str) -> str:
    """Run a management command and return what it prints."""
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue().strip()


def test_a_new_installation_has_both_that_it_needs() -> None:
    """Access tokens are signed with Ed25519; ID tokens with RS256, which every library verifies."""
    kid = run("create_signing_key")
    assert kid == in_state("active", Family.ED25519)
    made = set(SigningKey.objects.values_list("family", "state"))
    assert made == {(family, state) for family in (Family.ED25519, Family.RS256) for state in ("active", "next")}
    assert run("create_signing_key") == kid
    assert SigningKey.objects.count() == 4


@pytest.mark.parametrize("family", [*OTHERS, Family.ED25519])
def test_one_kind_alone_is_made_when_it_is_named(family: Family) -> None:
    """With --alg nothing else is made, and its own kid is printed."""
    assert run("create_signing_key", "--alg", family) == in_state("active", family)
    assert set(SigningKey.objects.values_list("family", flat=True)) == {family}


def test_all_there_are_rotate_together() -> None:
    """Without --alg each family moves on; one that is too young stays, is named, and keeps no other from moving."""
    run("create_signing_key")
    following = [in_state("next", family) for family in (Family.ED25519, Family.RS256)]
    with clock.shifted(settings.IRONAUTH_JWKS_MAX_AGE_S + PUBLISHED_BY_ALL_S):
        assert run("rotate_signing_key").split() == following
        young = run("create_signing_key", "--alg", "ES256")
    following = [in_state("next", family) for family in (Family.ED25519, Family.RS256)]
    with clock.shifted(2 * (settings.IRONAUTH_JWKS_MAX_AGE_S + PUBLISHED_BY_ALL_S)):
        SigningKey.objects.filter(family=Family.ES256).update(created_at=clock.now())
        with pytest.raises(CommandError, match=r"^ES256: .*try again in"):
            run("rotate_signing_key")
    assert [in_state("active", family) for family in (Family.ED25519, Family.RS256)] == following
    assert in_state("active", Family.ES256) == young


@pytest.mark.parametrize("family", OTHERS)
def test_a_family_of_its_own(family: Family) -> None:
    """Each family has one active and one next key, and what happens in one leaves the others alone."""
    ed25519 = create_first_keys()
    first = run("create_signing_key", "--alg", family)
    assert run("create_signing_key", "--alg", family) == first
    assert in_state("active", Family.ED25519) == ed25519
    following = in_state("next", family)
    with pytest.raises(CommandError, match="try again in"):
        run("rotate_signing_key", "--alg", family)
    with clock.shifted(settings.IRONAUTH_JWKS_MAX_AGE_S + PUBLISHED_BY_ALL_S):
        assert run("rotate_signing_key", "--alg", family) == following
    assert SigningKey.objects.get(pk=first).state == "retiring"
    assert run("rotate_signing_key", "--drop", following) == in_state("active", family)
    assert SigningKey.objects.get(pk=following).state == "dropped"
    assert bytes(SigningKey.objects.get(pk=following).private_encrypted) == b""
    assert in_state("active", Family.ED25519) == ed25519


def test_one_active_key_in_each_family() -> None:
    """The database itself refuses a second active and a second next key of a family."""
    create_first_keys()
    create_first_keys(Family.ES256)
    for state in ("active", "next"):
        with pytest.raises(IntegrityError), transaction.atomic():
            SigningKey.objects.create(kid=f"second {state}", alg="ES256", family="ES256", public_jwk={}, state=state)


def test_loading_an_rsa_key_validates_it_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes 28 ms, on the event loop, and each process loads its keys every 2.5 s; the seal vouches for the key."""
    create_first_keys(Family.RS256)
    asked: list[dict[str, bool]] = []

    def load(data: bytes, password: None, **options: bool) -> object:
        asked.append(options)
        return serialization.load_der_private_key(data, password, **options)

    monkeypatch.setattr(key_set, "load_der_private_key", load)
    found = build_key_set(read_records(), now=time.time()).signers[Family.RS256]
    assert asked == [{"unsafe_skip_rsa_key_validation": True}]
    assert found.key.thumbprint() == found.kid


def test_rotating_nothing_names_the_family() -> None:
    """The remedy is the command with the right option."""
    create_first_keys()
    with pytest.raises(CommandError, match="create_signing_key --alg RS256"):
        run("rotate_signing_key", "--alg", "RS256")


@pytest.mark.parametrize(
    ("family", "members"),
    [(Family.ES256, {"kty", "crv", "x", "y"}), (Family.RS256, {"kty", "n", "e"})],
)
def test_published_members(family: Family, members: set[str]) -> None:
    """A published key has its kty's public members, kid, use and alg (RFC 7518 §6), and nothing private."""
    create_first_keys(family)
    for key in SigningKey.objects.all():
        assert set(key.public_jwk) == members | {"kid", "use", "alg"}
        assert (key.alg, key.public_jwk["alg"], len(key.kid)) == (family, family, 43)
        sealed = bytes(key.private_encrypted)
        private = unseal(key.master_key_id, sealed, key.kid)
        assert private_key(family, private).thumbprint() == key.kid
        assert private not in sealed


def test_rsa_is_long_enough() -> None:
    """RFC 7518 §3.3 asks for 2048 bits or more."""
    jwk, _ = new_key_pair("RS256")
    assert len(b64(b"\0" * 256)) <= len(jwk.n)


def test_mixed_set() -> None:
    """The set names every key once, and tokens are verified by each, under its own algorithm."""
    for family in Family:
        create_first_keys(family)
    keys = build_key_set(read_records(), now=time.time())
    published = json.loads(keys.jwks)["keys"]
    assert sorted(key["kty"] for key in published) == ["EC", "EC", "OKP", "OKP", "RSA", "RSA"]
    assert len({key["kid"] for key in published}) == 6
    assert {key.alg for key in keys.verifying.values()} == {"EdDSA", "ES256", "RS256"}
    assert set(keys.verifying) == {key["kid"] for key in published}
    assert set(keys.signers) == set(Family)
    assert keys.active is not None
    assert keys.active.alg == "EdDSA"
    assert keys.algorithms == ("EdDSA", "ES256", "RS256")


def test_algorithms_to_come() -> None:
    """What the next key will sign under is told before it does: discovery is read less often than keys rotate."""
    create_first_keys()
    with override_settings(IRONAUTH_JWT_ALG="Ed25519"):
        rotate(at_once=True)
    assert build_key_set(read_records(), now=time.time()).algorithms == ("EdDSA", "Ed25519")


@pytest.mark.parametrize("typ", ["at+jwt", "JWT", "logout+jwt"])
@pytest.mark.parametrize("alg", ["ES256", "RS256", "EdDSA"])
@pytest.mark.parametrize("family", OTHERS)
def test_what_is_an_access_token(family: Family, alg: str, typ: str) -> None:
    """Of what a key of another family signs only one thing: under its own name, as that type (security-bar 26, 29)."""
    records = []
    for name in ("EdDSA", family):
        jwk, private = new_key_pair(name)
        records.append(KeyRecord(jwk=jwk, active=True, seed=private, not_after=None))
    keys = build_key_set(records, now=NOW)
    key = keys.signers[family]
    token = _signed({"alg": alg, "kid": key.kid, "typ": typ}, key.key, family)
    if alg == family and typ == "at+jwt":
        assert codec.decode(token, keys, now=NOW).kid == key.kid
    else:
        with pytest.raises(InvalidToken):
            codec.decode(token, keys, now=NOW)


def _signed(header: dict[str, Any], key: Any, family: Family) -> str:
    """Return a token with a genuine signature of the key, whatever its header says."""
    payload = json.dumps(good_payload()).encode()
    algorithm = jws.JWSRegistry.algorithms[family]
    signing_input = ".".join((b64(json.dumps(header).encode()), b64(payload)))
    return f"{signing_input}.{b64(algorithm.sign(signing_input.encode(), key))}"


async def test_signing(signing_key: str) -> None:
    """The store signs with the family that is asked for, and names the remedy while there is none."""
    store = key_store()
    with pytest.raises(SigningKeyMissing):
        await store.signing(Family.ES256)
    assert (await store.signing()).kid == signing_key


async def test_published_keys_are_usable(signing_key: str) -> None:
    """A client imports the whole set, though it needs one key of it."""
    store = key_store()
    await _create(Family.ES256)
    await _create(Family.RS256)
    published = Published.import_key_set(json.loads((await store.for_publishing()).jwks))
    kinds = {type(key) for key in published.keys}
    assert {ECKey, RSAKey} < kinds
    for family in OTHERS:
        key = await store.signing(family)
        token = jws.serialize_compact({"alg": key.alg, "kid": key.kid}, b"{}", key.key, algorithms=[family])
        assert jws.deserialize_compact(token, published, algorithms=[family]).payload == b"{}"


async def _create(family: Family) -> None:
    """Make the keys of a family, as an operator does."""
    await sync_to_async(create_first_keys)(family)
    key_store().forget()


def test_a_retired_key_outlives_the_longest_token() -> None:
    """A client may have access tokens that live longer than others': its key stays until the last has expired."""
    OAuthClient.objects.create(name="Slow", access_token_s=3_000)
    old = create_first_keys()
    rotate(at_once=True)
    for after_s, there in ((3_000 + 63, True), (3_000 + 66, False)):
        with clock.shifted(after_s):
            assert (old in {record.jwk.kid for record in read_records()}) is there


def test_drop_keeps_to_the_family() -> None:
    """The successor of a dropped key is one of its own kind."""
    create_first_keys()
    old = create_first_keys(Family.ES256)
    following = in_state("next", Family.ES256)
    assert drop(old) == following
    assert in_state("next", Family.ES256) not in {old, following}
