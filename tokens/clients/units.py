"""Units of work on clients: make, change, give a new secret, disable, enable, delete. Each leaves an audit event.

Fields are judged before (``rules``). A secret is returned once and stored as a digest.
"""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from tokens.clients.errors import SessionsEnding
from tokens.clients.models import OAuthClient, OAuthClientSecret, client_tag, digest_of
from tokens.clients.queries import client_ends, client_verified

SECRET_BYTES: Final = 32  # 256 random bits (security-bar 22)
HINT_CHARACTERS: Final = 4  # of 43: the 232 bits left are as good as all
#: Seconds for which a replaced secret still works unless somebody says otherwise: a day to bring the new one out.
EXPIRE_OLD_S: Final = 86_400
MOST_EXPIRE_OLD_S: Final = 90 * 86_400  # two for longer than that is a secret nobody replaces
NO_SECRET: Final = ""
#: How far a client is trusted: in the trail with its values.
_BELIEVED: Final = ("administers", "resource_server", "trusted")


class NoSecretError(Exception):
    """The client proves who it is by something else; the message has the remedy."""


@transaction.atomic
def create(client: OAuthClient, *, actor_id: UUID | None = None) -> str:
    """Store a new client; return its secret, "" where it has none.

    Args:
        client: The client, not stored yet.
        actor_id: Who does it; None for a command.
    """
    client.save(force_insert=True)
    secret = first_secret(client)
    details = {"auth_method": client.auth_method, **_believed(client, _BELIEVED)}
    _record(Event.CLIENT_CREATED, client, actor_id, **details)
    return secret


@transaction.atomic
def change(client: OAuthClient, *, fields: Sequence[str], actor_id: UUID | None = None) -> str:
    """Store changed ``fields``; return the first secret of a client that gets one by that, "" otherwise.

    A client that changes to another way of authentication loses its secrets. Whether it is disabled is not written:
    somebody may have disabled it since ``client`` was read.

    Args:
        client: The client with the new values set, validated.
        fields: The names of the fields that were set, for the trail.
        actor_id: The member of staff; None for a command.
    """
    kept = ("id", "created_at", "disabled_at")
    columns = (field.name for field in OAuthClient._meta.concrete_fields)  # noqa: SLF001 - documented by Django
    client.save(update_fields=[name for name in columns if name not in kept])
    secret = NO_SECRET
    if not _has_secret(client):
        OAuthClientSecret.objects.filter(client=client).delete()
    elif not OAuthClientSecret.objects.filter(client=client).exists():
        secret = _add_secret(client)
    _record(Event.CLIENT_CHANGED, client, actor_id, fields=sorted(fields), **_believed(client, fields))
    return secret


@transaction.atomic
def rotate_secret(client_id: UUID, *, expire_old_in_s: int = EXPIRE_OLD_S, actor_id: UUID | None = None) -> str:
    """Give the client another secret and return it; the newest before works on for a while.

    Others end at once, so that two work at most.

    Args:
        client_id: The client's id.
        expire_old_in_s: Seconds the newest secret before goes on working.
        actor_id: Who does it; None for a command.

    Raises:
        NoSecretError: The client has no secrets.
        OAuthClient.DoesNotExist: There is no such client.
    """
    client = OAuthClient.objects.select_for_update().get(pk=client_id)
    if not _has_secret(client):
        raise NoSecretError(
            f"{client.name} has no secret ({client.get_auth_method_display()}): there is none to rotate."
        )
    now = clock.now()
    end = now + timedelta(seconds=expire_old_in_s)
    usable = OAuthClientSecret.objects.filter(Q(expires_at=None) | Q(expires_at__gt=now), client=client)
    newest = usable.order_by("-created_at", "-id").first()
    kept = newest if expire_old_in_s > 0 else None
    others = OAuthClientSecret.objects.filter(client=client)
    (others.exclude(pk=kept.pk) if kept else others).delete()
    if kept is not None and (kept.expires_at is None or kept.expires_at > end):
        OAuthClientSecret.objects.filter(pk=kept.pk).update(expires_at=end)
    secret = _add_secret(client)
    invalidate(client_tag(str(client.pk)))
    _record(Event.CLIENT_SECRET_ROTATED, client, actor_id, expire_old_in_s=expire_old_in_s)
    return secret


@transaction.atomic
def disable(client_id: UUID, *, actor_id: UUID | None = None) -> int | None:
    """Refuse the client and whatever it holds from now on; return how many sessions that ended at once.

    None when it was disabled before. Its sessions end by the signal ``client_ends``, which ``tokens.apps`` connects to
    ``tokens.sessions.ends.of_clients``: many go on ending afterwards, and ``sessions_ending`` says how many have. Other
    workers hear of it within IRONAUTH_L1_MAX_STALE_S.

    Args:
        client_id: The client.
        actor_id: The member of staff; None for a command.

    Raises:
        OAuthClient.DoesNotExist: There is no such client.
    """
    client = OAuthClient.objects.select_for_update().get(pk=client_id)
    if client.disabled_at is not None:
        return None
    client.disabled_at = clock.now()
    client.save(update_fields=["disabled_at"])
    ended = _end_everything(client)
    more = {} if client.sessions_ending is None else {"complete": False}
    _record(Event.CLIENT_DISABLED, client, actor_id, sessions=ended, **more)
    return ended


@transaction.atomic
def enable(client_id: UUID, *, actor_id: UUID | None = None) -> bool:
    """Let the client sign people in again; what was ended stays so. False when it was not disabled.

    What was opened since ends too: a worker that had not heard of it may have answered the client for some seconds.

    Args:
        client_id: The client.
        actor_id: The member of staff; None for a command.

    Raises:
        SessionsEnding: (409) Its sessions have not all ended yet: those left would live again.
        OAuthClient.DoesNotExist: There is no such client.
    """
    client = OAuthClient.objects.select_for_update().get(pk=client_id)
    if client.disabled_at is None:
        return False
    if client.sessions_ending is not None:
        raise SessionsEnding
    _end_everything(client, at_once=True)
    client.disabled_at = None
    client.save(update_fields=["disabled_at"])
    _record(Event.CLIENT_ENABLED, client, actor_id)
    return True


@transaction.atomic
def delete(client: OAuthClient, *, actor_id: UUID | None = None, event: Event = Event.CLIENT_DELETED) -> None:
    """Delete the client with its consents, and end its sessions.

    Args:
        client: The client.
        actor_id: The member of staff; None for a command, and for the client itself.
        event: What the trail calls it.
    """
    ended = _end_everything(client)
    _record(event, client, actor_id, sessions=ended)
    client.delete()


@transaction.atomic
def verify(client_id: UUID, *, actor_id: UUID | None = None) -> bool:
    """Note that staff have looked at a client that none of them made; False when there is nothing to note.

    People are asked about it as about any other then, and it does not expire. Its logo is the copy that is here now, or
    none: ``client_verified``.

    Args:
        client_id: The client.
        actor_id: The member of staff.

    Raises:
        OAuthClient.DoesNotExist: There is no such client.
    """
    client = OAuthClient.objects.select_for_update().get(pk=client_id)
    if not client.is_unverified:
        return False
    client.verified_at = clock.now()
    client.save(update_fields=["verified_at"])
    client_verified.send(sender=OAuthClient, client=client)
    _record(Event.CLIENT_VERIFIED, client, actor_id, redirect_uris=client.redirect_uris)
    return True


def _end_everything(client: OAuthClient, *, at_once: bool = False) -> int:
    """End the client's sessions and whatever is under way; return how many sessions ended now.

    The caller publishes the client, by whose tag all its tokens are known.
    """
    answers: Sequence[tuple[object, Any]] = client_ends.send(sender=OAuthClient, client=client, at_once=at_once)
    return sum(ended or 0 for _, ended in answers)


def _believed(client: OAuthClient, fields: Sequence[str]) -> dict[str, object]:
    """Return the values of those fields that say how far the client is trusted."""
    return {name: getattr(client, name) for name in _BELIEVED if name in fields}


def first_secret(client: OAuthClient) -> str:
    """Give a client that was stored just now its first secret, and return it; "" for one that has none.

    Args:
        client: The client.
    """
    return _add_secret(client) if _has_secret(client) else NO_SECRET


def _has_secret(client: OAuthClient) -> bool:
    return client.auth_method == OAuthClient.AuthMethod.SECRET


def _add_secret(client: OAuthClient) -> str:
    secret = secrets.token_urlsafe(SECRET_BYTES)
    OAuthClientSecret.objects.create(client=client, digest=digest_of(secret), hint=secret[-HINT_CHARACTERS:])
    return secret


def _record(event: Event, client: OAuthClient, actor_id: UUID | None, **details: object) -> None:
    audit.record(event, actor_id=actor_id, details={"client": str(client.pk), "name": client.name, **details})
