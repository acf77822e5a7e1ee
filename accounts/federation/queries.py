"""What each sign-in with a provider asks of the database, compiled once: six statements, where nothing is new."""

import hashlib
import secrets
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import models
from django.db.models import Exists, OuterRef

from accounts.federation.models import Identity, KeptTokens, UpstreamProvider, UpstreamSignIn
from accounts.federation.outputs import IdentityOut, KeptOut, ProviderOut
from accounts.users import queries as user_queries
from accounts.users.models import User
from accounts.users.queries import Credentials
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.db.compiled import CompiledInsert, CompiledSelect, CompiledUpdate, Param, given_row

#: Names an identity among the ways in.
WAY_IN: Final = "identity"


class Known(NamedTuple):
    """An identity that is known here, whose it is, and of which provider: another one may have the same issuer."""

    id: UUID
    user_id: UUID
    provider_id: UUID


class Holder(NamedTuple):
    """An identity that is known here, of which provider, and the account that has it."""

    id: UUID
    provider_id: UUID
    account: Credentials


class Enabled(NamedTuple):
    """What a sign-in of a known identity asks of its provider."""

    slug: str
    updates_name: bool


class Begun(NamedTuple):
    """A sign-in that has come back from its provider; it is used up."""

    id: UUID
    provider_id: UUID
    page: str
    user_id: UUID | None


#: 256 random bits: 43 characters.
STATE_BYTES: Final = 32
_ID: Final = Param("id", models.UUIDField())
_DIGEST: Final = Param("digest", models.CharField())
_KNOWN: Final = CompiledSelect(
    lambda: (
        Identity.objects.filter(
            issuer=Param("issuer", models.CharField()), subject=Param("subject", models.CharField())
        )
        .order_by()
        .values_list(*Known._fields)
    )
)
_USED: Final = CompiledUpdate(
    lambda: Identity.objects.filter(pk=_ID),
    last_used_at=Param("now", models.DateTimeField()),
    email=Param("email", models.CharField()),
)
_ASKED: Final = UpstreamProvider.objects.filter(pk=Param("asked", models.UUIDField()), enabled=True)
_HOLDER: Final = CompiledSelect(
    lambda: user_queries.with_credentials(
        User.objects.filter(
            Exists(_ASKED.filter(updates_name=False)),
            identities__issuer=Param("issuer", models.CharField()),
            identities__subject=Param("subject", models.CharField()),
        ),
        "identities__id",
        "identities__provider_id",
    )
)
_ENABLED_ONE: Final = UpstreamProvider.objects.filter(pk=OuterRef("provider_id"), enabled=True)
_SIGN_IN: Final = CompiledUpdate(
    lambda: Identity.objects.filter(Exists(_ENABLED_ONE), pk=_ID, user_id=Param("user_id", models.UUIDField())),
    last_used_at=Param("now", models.DateTimeField()),
    email=Param("email", models.CharField()),
)
_ENABLED: Final = CompiledSelect(
    lambda: UpstreamProvider.objects.filter(pk=_ID, enabled=True).order_by().values_list(*Enabled._fields)
)
_BEGIN: Final = CompiledInsert(lambda: given_row(UpstreamSignIn))
_BEGUN: Final = CompiledSelect(
    lambda: (
        UpstreamSignIn.objects.filter(
            digest=_DIGEST,
            browser=Param("browser", models.CharField()),
            provider__slug=Param("slug", models.CharField()),
            provider__enabled=True,
            expires_at__gt=Param("now", models.DateTimeField()),
        )
        .order_by()
        .values_list(*Begun._fields)
    )
)
_SPEND: Final = CompiledUpdate(
    lambda: UpstreamSignIn.objects.filter(pk=_ID, digest=_DIGEST), digest=Param("spent", models.CharField())
)


def known(issuer: str, subject: str) -> Known | None:
    """Return the identity, where it is known here. One query.

    Args:
        issuer: Of the provider.
        subject: Who it is there.
    """
    rows = _KNOWN.rows(issuer=issuer, subject=subject)
    return Known(*rows[0]) if rows else None


def holder(*, asked: UUID, issuer: str, subject: str) -> Holder | None:
    """Return who has an identity; None where nobody has, or where its sign-in may change their name. One query.

    Args:
        asked: The provider that has confirmed it; it has to be enabled.
        issuer: Of the identity.
        subject: Who it is there.
    """
    rows = _HOLDER.rows(asked=asked, issuer=issuer, subject=subject)
    if not rows:
        return None
    identity_id, provider_id, *account = rows[0]
    return Holder(identity_id, provider_id, user_queries.credentials_of_row(account))


def usable(user_id: Any) -> models.QuerySet[Identity]:
    """Return the query of the identities that somebody can sign in with.

    Args:
        user_id: Who it is, or an expression for it.
    """
    return Identity.objects.filter(user_id=user_id, provider__enabled=True)


def has_one(user_id: UUID, provider_id: UUID | None) -> bool:
    """Tell whether somebody can sign in with an identity of a provider, or of any. One query.

    Args:
        user_id: Who it is.
        provider_id: Of which provider; None: of any.
    """
    of_provider = {} if provider_id is None else {"provider_id": provider_id}
    return usable(user_id).filter(**of_provider).exists()


def used(identity_id: UUID, email: str) -> None:
    """Note that an identity signs in. One query.

    Args:
        identity_id: Which one.
        email: What its provider says now.
    """
    _USED.run(id=identity_id, now=clock.now(), email=email)


def sign_in(*, identity_id: UUID, user_id: UUID, email: str) -> bool:
    """Note that an identity signs its person in; False where it is gone, or its provider switched off. One query.

    Args:
        identity_id: Which one.
        user_id: Whose it was when it was looked up.
        email: What its provider says now.
    """
    return _SIGN_IN.run(id=identity_id, user_id=user_id, now=clock.now(), email=email) > 0


def enabled(provider_id: UUID) -> Enabled | None:
    """Return the provider, unless it is switched off or gone. One query."""
    rows = _ENABLED.rows(id=provider_id)
    return Enabled(*rows[0]) if rows else None


def digest_of(secret: str) -> str:
    """Return what is stored in place of a random value."""
    return hashlib.sha256(secret.encode()).hexdigest()


def begin(*, state: str, browser: str, provider_id: UUID, user_id: UUID | None, page: str, life_s: int) -> None:
    """Store a sign-in on its way to a provider, as the fields of ``UpstreamSignIn`` say. One query.

    Args:
        state: What the provider gives back.
        browser: What this browser's cookie says.
        provider_id: Where it goes.
        user_id: Who connects an identity; None for a sign-in.
        page: The page that goes on when they come back.
        life_s: Seconds in which they have to come back.
    """
    given: dict[str, Any] = {
        "issuer": "",
        "subject": "",
        "email": "",
        "sid": "",
        "name": "",
        "profile": None,
        "tokens": None,
        "page": page,
        "user_id": user_id,
    }
    given["makes_account"] = False
    given |= {"digest": digest_of(state), "browser": digest_of(browser)}
    expires_at = clock.now() + timedelta(seconds=life_s)
    _BEGIN.run(id=new_id(), provider_id=provider_id, expires_at=expires_at, **given)


def take(*, slug: str, state: str, browser: str) -> Begun | None:
    """Use up a sign-in that has come back. Two queries, one for none.

    Args:
        slug: The provider whose redirect URI was called; it has to be enabled.
        state: What the provider gave back.
        browser: What this browser's cookie says.

    Returns:
        The sign-in; None where it was not begun in this browser with this provider, or is old or used up.
    """
    digest, spent = digest_of(state), digest_of(secrets.token_urlsafe(STATE_BYTES))
    rows = _BEGUN.rows(digest=digest, browser=digest_of(browser), slug=slug, now=clock.now())
    if not rows or not _SPEND.run(id=rows[0][0], digest=digest, spent=spent):
        return None
    return Begun(*rows[0])


def identities(user_id: UUID) -> tuple[IdentityOut, ...]:
    """Return a person's identities, the oldest first. One query."""
    rows = Identity.objects.filter(user_id=user_id).select_related("provider", "tokens").defer("tokens__sealed")
    return tuple(map(_shown, rows.order_by("pk")))


def _shown(row: Identity) -> IdentityOut:
    tokens: KeptTokens | None = getattr(row, "tokens", None)
    kept = None if tokens is None else KeptOut(tokens.scope, tokens.kept_at, tokens.expires_at, tokens.can_refresh)
    provider = ProviderOut(row.provider.slug, row.provider.name)
    return IdentityOut(row.pk, provider, row.email, row.created_at, row.last_used_at, kept)
