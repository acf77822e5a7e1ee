"""The life of signing keys, as units of work: create the first, rotate, drop a compromised one, forget finished ones.

Each family of keys has a life of its own, and the following is true of each. A rotation interrupts nobody: the next key
is published for at least the JWKS's max-age before it signs, and the old one is accepted until the last token it signed
has expired (security-bar 33).
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import transaction

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id
from tokens.keys import pairwise
from tokens.keys.key_set import Family, kid_tag, new_key_pair
from tokens.keys.models import SigningKey
from tokens.keys.wrapping import seal, unseal
from tokens.protocol import ID_TOKEN_S

#: The tag of everything that depends on the set of signing keys.
KEYS_TAG = "keys"
#: Seconds a retiring key outlives its last token: other workers may sign with it for up to 5 s more, and clocks
#: may differ by up to a minute.
RETIRING_LEEWAY_S = 65
#: Seconds until every worker publishes a new key: key_store.MAX_AGE_S. A client that asked the last worker just before
#: keeps its copy of the key set for the whole max-age.
PUBLISHED_BY_ALL_S = 5

State = SigningKey.State

_token_lives: list[Callable[[], int]] = []


def register_token_life(longest_s: Callable[[], int]) -> None:
    """Have a retiring key outlive tokens that are valid for ``longest_s()`` seconds, asked when a key retires."""
    _token_lives.append(longest_s)


class RotationRefusedError(Exception):
    """The rotation would break verification somewhere, or there is nothing to rotate; the message has the remedy."""


@transaction.atomic
def create_first_keys(family: Family = Family.ED25519, *, actor_id: UUID | None = None) -> str:
    """Make sure there is an active and a next key; return the active one's kid.

    Idempotent: existing keys stay. Also brings every private part, of all families, under the newest master key.

    Args:
        family: The family of keys.
        actor_id: Who does it; None for a command.

    Raises:
        IntegrityError: another process does the same at this moment: call it again.
    """
    ours = SigningKey.objects.filter(family=family)
    states = dict(ours.filter(state__in=[State.ACTIVE, State.NEXT]).values_list("state", "kid"))
    changed = _reseal()
    if State.ACTIVE not in states:
        if State.NEXT in states:
            _activate(states.pop(State.NEXT))
        else:
            _activate(_create_next(family))
        changed = True
    if State.NEXT not in states:
        _create_next(family)
        changed = True
    active = ours.get(state=State.ACTIVE).kid
    if changed:
        invalidate(KEYS_TAG)
        audit.record(Event.KEYS_CREATED, actor_id=actor_id, details={"active": active, **_named(family)})
    return active


@transaction.atomic
def rotate(family: Family = Family.ED25519, *, at_once: bool = False, actor_id: UUID | None = None) -> str:
    """Retire the active key, activate the next one, publish a new next; return the kid that signs from now on.

    Args:
        family: The family of keys.
        at_once: Do not wait until every client can know the next key.
        actor_id: Who does it; None for a command.

    Raises:
        RotationRefusedError: There are no keys yet, or the next one has been published by every worker for less than
            IRONAUTH_JWKS_MAX_AGE_S seconds, without ``at_once``.
    """
    ours = SigningKey.objects.filter(family=family)
    keys = {key.state: key for key in ours.select_for_update().filter(state__in=[State.ACTIVE, State.NEXT])}
    if State.NEXT not in keys:
        option = "" if family is Family.ED25519 else f" --alg {family}"
        raise RotationRefusedError(f"There is no next key: run `manage.py create_signing_key{option}` first.")
    published_s = (clock.now() - keys[State.NEXT].created_at).total_seconds()
    missing_s = settings.IRONAUTH_JWKS_MAX_AGE_S + PUBLISHED_BY_ALL_S - published_s
    if missing_s > 0 and not at_once:
        raise RotationRefusedError(
            f"The next key was made {published_s:.0f} s ago, workers take {PUBLISHED_BY_ALL_S} s to publish it, and "
            f"clients may keep the key set for {settings.IRONAUTH_JWKS_MAX_AGE_S} s: try again in {missing_s:.0f} s."
        )
    if State.ACTIVE in keys:
        _retire(keys[State.ACTIVE].kid)
    _activate(keys[State.NEXT].kid)
    _create_next(family)
    _reseal()
    SigningKey.objects.finished(clock.now()).delete()
    invalidate(KEYS_TAG)
    details = {"active": keys[State.NEXT].kid, "at_once": at_once, **_named(family)}
    audit.record(Event.KEY_ROTATED, actor_id=actor_id, details=details)
    return keys[State.NEXT].kid


@transaction.atomic
def drop(kid: str, *, actor_id: UUID | None = None) -> str:
    """Stop accepting a compromised key at once and destroy its private part; return the kid that signs from now on.

    If it was the active one, the next key takes over immediately. Every worker refuses the key's tokens within
    IRONAUTH_L1_MAX_STALE_S; other applications, once their copy of the JWKS is older than its max-age.

    Args:
        kid: The key's id, from the JWKS or the list of keys.
        actor_id: The member of staff; None for a command.

    Raises:
        RotationRefusedError: a kid that is unknown or already dropped.
    """
    key = SigningKey.objects.select_for_update().filter(kid=kid).exclude(state=State.DROPPED).first()
    if key is None:
        raise RotationRefusedError(f"No key in use has the kid {kid}: see /.well-known/jwks.json for those that are.")
    family = Family(key.family)
    ours = SigningKey.objects.filter(family=family)
    ours.filter(kid=kid).update(state=State.DROPPED, not_after=clock.now(), private_encrypted=b"")
    if key.state == State.ACTIVE:
        successor = ours.filter(state=State.NEXT).values_list("kid", flat=True).first()
        _activate(successor or _create_next(family))
    if not ours.filter(state=State.NEXT).exists():
        _create_next(family)
    invalidate(KEYS_TAG, kid_tag(kid))
    active = ours.get(state=State.ACTIVE).kid
    audit.record(Event.KEY_DROPPED, actor_id=actor_id, details={"dropped": kid, "active": active, **_named(family)})
    return active


def forget_finished() -> int:
    """Delete retiring keys whose last token has expired; return how many."""
    with transaction.atomic():
        deleted, _ = SigningKey.objects.finished(clock.now()).delete()
        if deleted:
            invalidate(KEYS_TAG)
    return deleted


def _named(family: Family) -> dict[str, str]:
    """Return what an audit event says of the family: nothing of the one that every installation has."""
    return {} if family is Family.ED25519 else {"family": family.value}


def _create_next(family: Family) -> str:
    """Store a new key in the state next; return its kid."""
    jwk, private = new_key_pair(settings.IRONAUTH_JWT_ALG if family is Family.ED25519 else family.value)
    master_key_id, sealed = seal(private, jwk.kid)
    SigningKey.objects.create(
        kid=jwk.kid,
        alg=jwk.alg,
        family=family.value,
        public_jwk=msgspec.to_builtins(jwk),
        private_encrypted=sealed,
        master_key_id=master_key_id,
        state=State.NEXT,
        created_at=clock.now(),
    )
    return jwk.kid


def _activate(kid: str) -> None:
    """Make the key sign from now on."""
    SigningKey.objects.filter(kid=kid).update(state=State.ACTIVE, activated_at=clock.now())


def _retire(kid: str) -> None:
    """Let the key sign no more; its tokens, also those of the client with the longest, stay valid until they expire."""
    now: datetime = clock.now()
    life_s = max(settings.IRONAUTH_ACCESS_TOKEN_S, ID_TOKEN_S, *(longest_s() for longest_s in _token_lives))
    end = now + timedelta(seconds=life_s + RETIRING_LEEWAY_S)
    SigningKey.objects.filter(kid=kid).update(state=State.RETIRING, retired_at=now, not_after=end)


def _reseal() -> bool:
    """Encrypt what is still under an older master key under the newest one; return whether that was a signing key.

    Apart from private parts the salt of pairwise subjects, so that an older master key can go after this.
    """
    pairwise.reseal()
    old = SigningKey.objects.filter(state__in=[State.ACTIVE, State.NEXT]).exclude(master_key_id=newest_master_key_id())
    for key in old:
        private = unseal(key.master_key_id, bytes(key.private_encrypted), key.kid)
        key.master_key_id, key.private_encrypted = seal(private, key.kid)
        key.save(update_fields=["master_key_id", "private_encrypted"])
    return bool(old)
