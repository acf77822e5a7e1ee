"""The life of signing keys in storage."""

import secrets
from io import StringIO

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import override_settings

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.models import Invalidation
from tokens.keys.key_set import kid_tag, public_jwk
from tokens.keys.models import SigningKey
from tokens.keys.store import read_records
from tokens.keys.units import (
    KEYS_TAG,
    PUBLISHED_BY_ALL_S,
    RotationRefusedError,
    create_first_keys,
    drop,
    forget_finished,
    rotate,
)
from tokens.keys.wrapping import unseal

pytestmark = [pytest.mark.django_db, pytest.mark.storage, pytest.mark.usefixtures("still_clock")]


def states() -> dict[str, str]:
    """Return the state of every key by kid."""
    return dict(SigningKey.objects.values_list("kid", "state"))


def in_state(state: str) -> str:
    """Return the kid of the one key in this state."""
    return SigningKey.objects.get(state=state).kid


def run(*arguments: str) -> str:
    """Run a management command and return what it prints."""
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue().strip()


def test_first_keys() -> None:
    """A new installation gets one active and one next key, and is told to every worker."""
    kid = create_first_keys()
    assert sorted(states().values()) == ["active", "next"]
    assert states()[kid] == "active"
    assert Invalidation.objects.get().tag == KEYS_TAG


def test_command_is_idempotent() -> None:
    """Running create_signing_key again changes nothing and prints the same kid."""
    kid = run("create_signing_key")
    before = list(SigningKey.objects.order_by("kid").values())
    assert run("create_signing_key") == kid
    assert list(SigningKey.objects.order_by("kid").values()) == before


def test_stored_key_is_what_is_published() -> None:
    """The sealed private part belongs to the published public one, and is nowhere in clear (security-bar 35)."""
    create_first_keys()
    for key in SigningKey.objects.all():
        seed = unseal(key.master_key_id, bytes(key.private_encrypted), key.kid)
        assert public_jwk(seed, key.alg).x == key.public_jwk["x"]
        row = repr(SigningKey.objects.filter(pk=key.kid).values().get()) + bytes(key.private_encrypted).hex()
        assert seed.hex() not in row
        assert "'d'" not in row


def test_one_active_key() -> None:
    """The database itself refuses a second active and a second next key."""
    create_first_keys()
    for state in ("active", "next"):
        with pytest.raises(IntegrityError), transaction.atomic():
            SigningKey.objects.create(kid=f"second {state}", alg="EdDSA", public_jwk={}, state=state)


def test_rotation() -> None:
    """Once every client can know the next key it takes over, the old one retires, and a new next is published."""
    old = create_first_keys()
    following = in_state("next")
    with clock.shifted(settings.IRONAUTH_JWKS_MAX_AGE_S + PUBLISHED_BY_ALL_S):
        assert rotate() == following
    assert states()[old] == "retiring"
    assert states()[following] == "active"
    assert in_state("next") not in {old, following}
    assert {record.jwk.kid for record in read_records()} == set(states())


def test_too_early() -> None:
    """One second before every client can know the next key, rotation is refused with the remedy, or forced."""
    create_first_keys()
    before = states()
    with clock.shifted(settings.IRONAUTH_JWKS_MAX_AGE_S + PUBLISHED_BY_ALL_S - 1):
        with pytest.raises(RotationRefusedError, match="try again in 1 s"):
            rotate()
        assert states() == before
        with pytest.raises(CommandError, match="try again in 1 s"):
            run("rotate_signing_key")
        kid = run("rotate_signing_key", "--now")
    assert states()[kid] == "active"


def test_without_keys() -> None:
    """Rotating nothing names the command that makes the first key."""
    with pytest.raises(RotationRefusedError, match="create_signing_key"):
        rotate(at_once=True)


def test_retiring_key_outlives_its_tokens() -> None:
    """A retired key stays published until its last token has expired and some more, then it is deleted."""
    old = create_first_keys()
    rotate(at_once=True)
    end = settings.IRONAUTH_ACCESS_TOKEN_S + 65
    with clock.shifted(end - 2):
        assert old in {record.jwk.kid for record in read_records()}
        assert forget_finished() == 0
    with clock.shifted(end + 1):
        assert old not in {record.jwk.kid for record in read_records()}
        assert forget_finished() == 1
    assert old not in states()


@pytest.mark.parametrize("state", ["active", "next"])
def test_drop(state: str) -> None:
    """A compromised key is out of the set at once, its private part destroyed, its place taken."""
    create_first_keys()
    kid = in_state(state)
    following = in_state("next")
    Invalidation.objects.all().delete()
    assert run("rotate_signing_key", "--drop", kid) == in_state("active")
    assert states()[kid] == "dropped"
    assert bytes(SigningKey.objects.get(pk=kid).private_encrypted) == b""
    assert kid not in {record.jwk.kid for record in read_records()}
    if state == "active":
        assert in_state("active") == following
    assert sorted(states().values()) == ["active", "dropped", "next"]
    assert {row.tag for row in Invalidation.objects.all()} == {KEYS_TAG, kid_tag(kid)}


def test_drop_a_retiring_key() -> None:
    """A retiring key can be dropped too; the active one stays."""
    old = create_first_keys()
    active = rotate(at_once=True)
    assert drop(old) == active
    assert old not in {record.jwk.kid for record in read_records()}


def test_drop_unknown() -> None:
    """Dropping a kid that is not in use, or the same one twice, is refused with where to look."""
    kid = create_first_keys()
    for wrong in ("nonsense", drop(kid) and kid):
        with pytest.raises(RotationRefusedError, match="jwks"):
            drop(str(wrong))


def test_new_master_key() -> None:
    """With a newer master key in front, the next run of create_signing_key seals the private parts under it."""
    create_first_keys()
    ring = {"t2": secrets.token_bytes(32), **settings.IRONAUTH_MASTER_KEYS}
    with override_settings(IRONAUTH_MASTER_KEYS=ring):
        run("create_signing_key")
    assert set(SigningKey.objects.values_list("master_key_id", flat=True)) == {"t2"}
    with override_settings(IRONAUTH_MASTER_KEYS={"t2": ring["t2"]}):
        assert [record.seed is not None for record in read_records() if record.active] == [True, True]


def test_algorithm_name_changes_with_the_key() -> None:
    """A changed IRONAUTH_JWT_ALG reaches new keys only: header and JWK of each key always agree (security-bar 34)."""
    first = create_first_keys()
    with override_settings(IRONAUTH_JWT_ALG="Ed25519"):
        second = rotate(at_once=True)
        third = rotate(at_once=True)
    algs = dict(SigningKey.objects.values_list("kid", "alg"))
    assert (algs[first], algs[second], algs[third]) == ("EdDSA", "EdDSA", "Ed25519")
    for key in SigningKey.objects.all():
        assert key.public_jwk["alg"] == key.alg
        assert "d" not in key.public_jwk


def test_next_without_active() -> None:
    """When the active key was deleted by hand, the first-key command promotes the next one."""
    create_first_keys()
    following = in_state("next")
    SigningKey.objects.filter(state="active").delete()
    assert create_first_keys() == following
    assert sorted(states().values()) == ["active", "next"]
