"""Units of work on clients that register themselves, and on the tokens of staff that let them; each is audited."""

import secrets
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from tokens.clients import units as client_units
from tokens.clients.dynamic import queries
from tokens.clients.dynamic.metadata import client_of, metadata_of
from tokens.clients.dynamic.models import Registration, RegistrationToken
from tokens.clients.dynamic.outputs import Registered
from tokens.clients.errors import InvalidClientMetadata, InvalidRegistrationToken
from tokens.clients.models import OAuthClient, digest_of

TOKEN_BYTES: Final = 32  # 256 random bits


def register(client: OAuthClient, *, initial_token: str | None) -> Registered:
    """Store a client that registers itself.

    Args:
        client: What its metadata describe; not stored yet.
        initial_token: The token of staff that it shows; None for none.

    Raises:
        InvalidRegistrationToken: One is needed and this is none, or it has ended or is used up.
        TooManyClients: There are as many unverified clients as there may be.
    """
    with transaction.atomic():
        shown = None
        if settings.IRONAUTH_REGISTRATION != "open" or initial_token is not None:
            shown = _used(initial_token or "")
        client.origin = OAuthClient.Origin.REGISTERED
        queries.make_room(client.origin)
        client.save(force_insert=True)
        secret = client_units.first_secret(client)
        token = secrets.token_urlsafe(TOKEN_BYTES)
        Registration.objects.create(client=client, digest=digest_of(token), token=shown)
        details = {"token": str(shown.pk)} if shown is not None else {}
        _record(Event.CLIENT_REGISTERED, client, redirect_uris=client.redirect_uris, **details)
    return Registered(metadata_of(client), token, secret)


def require_usable(initial_token: str | None) -> None:
    """Return where somebody may register who shows this token of staff, without using it up.

    Args:
        initial_token: The token; None for none.

    Raises:
        InvalidRegistrationToken: One is needed and this is none, or it has ended or is used up.
    """
    if settings.IRONAUTH_REGISTRATION == "open" and initial_token is None:
        return
    if not _usable(initial_token or "").exists():
        raise InvalidRegistrationToken


def _usable(token: str) -> "QuerySet[RegistrationToken]":
    return RegistrationToken.objects.filter(digest=digest_of(token), expires_at__gt=clock.now(), left__gt=0)


def _used(token: str) -> RegistrationToken:
    """Return the token of staff, with one use less; of two at once the second waits, and sees what the first left."""
    row = _usable(token).select_for_update().first()
    if row is None:
        raise InvalidRegistrationToken
    row.left -= 1
    row.save(update_fields=["left"])
    return row


def read(client_id: UUID, token: str) -> dict[str, Any]:
    """Return what is registered of a client that shows its registration access token.

    Args:
        client_id: The client.
        token: Its registration access token.

    Raises:
        InvalidRegistrationToken: It is not that client's, or staff have disabled the client.
    """
    return metadata_of(_own(client_id, token))


def change(client_id: UUID, token: str, said: dict[str, Any]) -> Registered:
    """Replace what is registered of a client; what is left out gets its default (RFC 7592 §2.2).

    A change of who it is makes a client that staff have verified unverified again.

    Args:
        client_id: The client.
        token: Its registration access token.
        said: The metadata, with the ``client_id``, which does not change.

    Raises:
        InvalidRegistrationToken: It is not that client's, or staff have disabled the client.
        OAuthError: What ``metadata.client_of`` raises.
    """
    with transaction.atomic():
        client = _own(client_id, token, locked=True)
        if said.get("client_id") != client.public_id:
            raise InvalidClientMetadata("client_id is missing, or not the one of this client.")
        if "client_secret" in said:
            secret = said["client_secret"]
            known = (
                client.secrets.filter(digest=digest_of(secret)) if isinstance(secret, str) else client.secrets.none()
            )
            if not known.exists():
                raise InvalidClientMetadata("client_secret is not the one of this client: leave it out.")
        before = {name: getattr(client, name) for name in _FIELDS}
        scopes = list(client.scopes) if client.verified_at is not None else None
        client = client_of(said, client=client, without_pkce=settings.IRONAUTH_REGISTRATION_WITHOUT_PKCE)
        if scopes is not None and "scope" not in said:
            client.scopes = scopes  # what staff gave it
        changed = [name for name in _FIELDS if getattr(client, name) != before[name]]
        if client.verified_at is not None and set(changed) & set(queries.IDENTITY):
            client.verified_at = None
            changed.append("verified_at")
        secret = client_units.change(client, fields=changed) if changed else client_units.NO_SECRET
        return Registered(metadata_of(client), token, secret)


def delete(client_id: UUID, token: str) -> None:
    """Delete a client that shows its registration access token, with all it holds (RFC 7592 §2.3).

    Args:
        client_id: The client.
        token: Its registration access token.

    Raises:
        InvalidRegistrationToken: It is not that client's, or staff have disabled the client.
    """
    with transaction.atomic():
        client_units.delete(_own(client_id, token, locked=True))


def _own(client_id: UUID, token: str, *, locked: bool = False) -> OAuthClient:
    found = Registration.objects.filter(client_id=client_id, digest=digest_of(token), client__disabled_at=None)
    if not found.exists():
        raise InvalidRegistrationToken
    rows = OAuthClient.objects.select_for_update() if locked else OAuthClient.objects
    client = rows.filter(pk=client_id, disabled_at=None).first()
    if client is None:  # ended meanwhile
        raise InvalidRegistrationToken
    return client


def make_token(
    *, label: str, uses: int, expires_at: datetime, actor_id: UUID | None, token_id: UUID | None = None
) -> tuple[RegistrationToken, str]:
    """Make a token with which some clients may register; return its row, and the token, which is shown this once.

    Args:
        label: Who it is for.
        uses: How many clients may be registered with it.
        expires_at: When it ends.
        actor_id: The member of staff.
        token_id: The row's id, where it is known before.

    Raises:
        IntegrityError: There is a token with this id.
    """
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with transaction.atomic():
        row = RegistrationToken.objects.create(
            id=token_id or new_id(), label=label, digest=digest_of(token), left=uses, expires_at=expires_at
        )
        details = {"token": str(row.pk), "label": label, "uses": uses}
        audit.record(Event.REGISTRATION_TOKEN_MADE, actor_id=actor_id, details=details)
    return row, token


def end_token(token_id: UUID, *, actor_id: UUID | None) -> bool:
    """Let nobody register with this token any more; False where there is none. Clients that have used it stay.

    Args:
        token_id: The token's row.
        actor_id: The member of staff.
    """
    with transaction.atomic():
        row = RegistrationToken.objects.select_for_update().filter(pk=token_id).first()
        if row is None:
            return False
        details = {"token": str(row.pk), "label": row.label}
        row.delete()
        audit.record(Event.REGISTRATION_TOKEN_ENDED, actor_id=actor_id, details=details)
    return True


def _record(event: Event, client: OAuthClient, **details: object) -> None:
    audit.record(event, details={"client": str(client.pk), "name": client.name, **details})


_FIELDS: Final = (
    *queries.IDENTITY, "profile", "require_pkce", "grants", "scopes", "id_token_alg",
    "subject_type", "dpop", "require_par", "request_uris", "request_object_signing_alg",
    "userinfo_signed_response_alg", "sector_identifier_uri",
)  # fmt: skip
