"""Units of work on identities: synchronous, one transaction each, run by the database pool."""

from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils.translation import gettext_noop as _

from accounts import email_address as emails
from accounts import names
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.errors import InvalidCredentials
from accounts.federation import kept_tokens, queries
from accounts.federation.errors import IdentityTaken, UpstreamRefused
from accounts.federation.kinds.kind import UpstreamPerson
from accounts.federation.models import SUBJECT_CHARACTERS, URI_CHARACTERS, Identity, UpstreamProvider, UpstreamSignIn
from accounts.federation.queries import Known
from accounts.federation.rules import Holder, Step, UnknownIdentity, next_step
from accounts.invitations import queries as invitations
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.privacy import terms
from accounts.profile import fitting
from accounts.users import queries as user_queries
from accounts.users import rules as user_rules
from accounts.users.models import User
from accounts.users.queries import Credentials
from ironauth.infrastructure.core import clock


class Resolved(NamedTuple):
    """What an identity opens: an account; or, with ``step``, what its owner has to do first.

    ``provider_id``: the provider of the identity, which need not be the one that was asked, but has its issuer.
    ``identity_id``: the identity, where its use is still to be noted (``queries.sign_in``).
    """

    account: Credentials | None
    step: Step | None = None
    provider_id: UUID | None = None
    identity_id: UUID | None = None


def known(*, provider_id: UUID, person: UpstreamPerson) -> Resolved | None:
    """Return the account of an identity where its sign-in changes nothing but when it was used; reads only. One query.

    Args:
        provider_id: The provider that has confirmed it.
        person: What it said.

    Returns:
        What it opens; None for everything else, which is for ``resolve``.
    """
    found = queries.holder(asked=provider_id, issuer=person.issuer, subject=person.subject)
    if found is None or not found.account.is_active or found.account.methods:
        return None
    return Resolved(found.account, None, found.provider_id, found.id)


def resolve(
    *, provider_id: UUID, person: UpstreamPerson, waiting_id: UUID, keep: bool = False, accepted: bool = False
) -> Resolved:
    """Return the account of an identity, made or linked now where the rules allow it.

    Args:
        provider_id: The provider that has confirmed it.
        person: What it said.
        waiting_id: The sign-in; where the person has something to do first, the identity waits in its row.
        keep: Whether the identity stays in that row in any case: its provider tells who signs out there, or its tokens
            are kept.
        accepted: Whether the person has accepted the terms, where they are asked to.

    Raises:
        UpstreamRefused: What the provider said cannot be an identity, or it is no longer enabled.
    """
    enabled = queries.enabled(provider_id)
    if enabled is None or len(person.issuer) > URI_CHARACTERS or not 0 < len(person.subject) <= SUBJECT_CHARACTERS:
        raise UpstreamRefused("provider")
    if keep:
        _keep(waiting_id, person)
    known = _use(person)
    if known is not None:
        if enabled.updates_name:
            _update_profile(known.user_id, person, enabled.slug)
        return Resolved(user_queries.credentials_of_id(known.user_id), None, known.provider_id)
    provider = UpstreamProvider.objects.filter(pk=provider_id, enabled=True).first()
    if provider is None:  # since a moment
        raise UpstreamRefused("provider")
    told, key = told_by(provider, person)
    # Of an address that nobody has verified, nobody is looked for: the answer would tell who has an account here.
    holder = User.objects.filter(email_key=key).first() if told.is_verified else None
    # PostgreSQL shows what another first sign-in of this identity has committed since: the account, with the identity.
    known = _use(person) if holder is not None else None
    if known is not None:
        return Resolved(user_queries.credentials_of_id(known.user_id), None, known.provider_id)
    held = Holder(holder.pk, holder.email_verified_at is not None and holder.is_active) if holder else None
    step = next_step(told, held)
    if (
        step is Step.LINK
        and holder is not None
        and not Identity.objects.filter(user=holder, provider=provider).exists()
    ):
        # Nobody has signed in here yet: every session is another one, and the account is read with its new epoch.
        user_queries.end_sessions(holder.pk)
        _link(holder, provider, person)
        return Resolved(user_queries.credentials_of_id(holder.pk), None, provider.pk)
    if step is Step.CREATE:
        return _made(provider, person, waiting_id, accepted=accepted)
    first = Step.SIGN_IN_FIRST if step is Step.LINK else step
    if not keep:
        _keep(waiting_id, person)
    return Resolved(None, first)


def _made(provider: UpstreamProvider, person: UpstreamPerson, waiting_id: UUID, *, accepted: bool) -> Resolved:
    """Return the account that is made now; where the terms are not accepted yet, the identity waits for that."""
    if terms.is_asked() and not accepted:
        _keep(waiting_id, person)
        UpstreamSignIn.objects.filter(pk=waiting_id).update(
            name=name_of(person.name), profile=fitting(person.profile), makes_account=True
        )
        return Resolved(None, Step.ACCEPT_TERMS)
    return Resolved(user_queries.credentials_of_id(_create(provider, person)), None, provider.pk)


def accept_terms(*, waiting_id: UUID, browser: str) -> Resolved | None:
    """Resolve the identity that waits in this browser for the terms, which its person has accepted now.

    Args:
        waiting_id: The sign-in in whose row it waits.
        browser: What this browser's cookie says.

    Returns:
        What it opens; None where no identity waits there any more.

    Raises:
        UpstreamRefused: As of ``resolve``.
    """
    waiting = _waiting_in(waiting_id, browser).filter(makes_account=True).first()
    if waiting is None:
        return None
    who = UpstreamPerson(waiting.issuer, waiting.subject, waiting.email, email_verified=True, sid=waiting.sid)
    person = who._replace(name=waiting.name, profile=waiting.profile or {}, tokens=_bytes(waiting))
    UpstreamSignIn.objects.filter(pk=waiting_id).update(makes_account=False)
    return resolve(provider_id=waiting.provider_id, person=person, waiting_id=waiting_id, keep=True, accepted=True)


def _bytes(waiting: UpstreamSignIn) -> bytes | None:
    """Return the tokens that wait with an identity, as one type with every database."""
    return None if waiting.tokens is None else bytes(waiting.tokens)


def _waiting_in(waiting_id: UUID, browser: str) -> QuerySet[UpstreamSignIn]:
    """Return the identity that waits in this browser, to be locked until the transaction ends."""
    return (
        UpstreamSignIn.objects.select_for_update(of=("self",))
        .select_related("provider")
        .filter(pk=waiting_id, browser=queries.digest_of(browser), expires_at__gt=clock.now(), provider__enabled=True)
        .exclude(subject="")
    )


def _keep(waiting_id: UUID, person: UpstreamPerson) -> None:
    """Have the identity wait in the row of its sign-in. One query."""
    UpstreamSignIn.objects.filter(pk=waiting_id).update(
        issuer=person.issuer,
        subject=person.subject,
        email=shown(person.email),
        sid=person.sid,
        tokens=person.tokens,
    )


def _update_profile(user_id: UUID, person: UpstreamPerson, slug: str) -> None:
    """Give the person the names that the provider says, where an account may have them and has others. Three queries.

    What the provider does not say stays.
    """
    name = name_of(person.name)
    told = {**({"name": name} if name else {}), **fitting(person.profile)}
    held = User.objects.filter(pk=user_id).values(*told).first() if told else None
    changed = {field: value for field, value in told.items() if held and held[field] != value}
    if changed:
        user_queries.set_profile(user_id, changed)
        details = {"fields": sorted(changed), "provider": slug}
        audit.record(Event.PROFILE_CHANGED, user_id=user_id, details=details)


def _use(person: UpstreamPerson) -> Known | None:
    """Note that an identity signs in, and return it; None where there is none. Two queries, or one for none."""
    found = queries.known(person.issuer, person.subject)
    if found is None:
        return None
    queries.used(found.id, shown(person.email))
    return found


def told_by(provider: UpstreamProvider, person: UpstreamPerson) -> tuple[UnknownIdentity, str]:
    """Return what the rules ask, and the folded address; empty where the provider names none that is one.

    Args:
        provider: The provider, with what the operator says of it.
        person: What it says of somebody.
    """
    email = emails.normalise(person.email)
    try:
        emails.validate_new(email)
    except ValidationError:
        email = ""
    domain = email.rpartition("@")[2].lower()
    told = UnknownIdentity(
        has_email=bool(email),
        is_verified=bool(email) and person.email_verified and provider.trusts_email,
        is_authority=bool(domain) and domain in [str(one).lower() for one in provider.domains],
        may_create=False,
    )
    key = emails.fold(email) if email else ""
    return told._replace(may_create=_may_create(provider, told, key)), key


def _may_create(provider: UpstreamProvider, told: UnknownIdentity, key: str) -> bool:
    """Tell whether a first sign-in makes an account: with sign-up by invitation, for an invited, verified address."""
    if settings.IRONAUTH_SIGN_UP == "invitation":
        return provider.creates_accounts and told.is_verified and invitations.waits_for(key)
    return provider.creates_accounts and settings.IRONAUTH_SIGN_UP == "open"


def _create(provider: UpstreamProvider, person: UpstreamPerson) -> UUID:
    """Make an account with the verified address and the identity; return it. Seven queries, or those of an invitation.

    Raises:
        UpstreamRefused: It needed an invitation, which was used or withdrawn meanwhile.
    """
    user = User.objects.hashed(
        email=person.email,
        encoded=make_password(None),
        name=name_of(person.name),
        **fitting(person.profile),
        email_verified_at=clock.now(),
        **terms.kept(),
    )
    user_queries.add(user)
    if not invitations.accept_elsewhere(user, provider.slug):
        if settings.IRONAUTH_SIGN_UP != "open":  # used or withdrawn meanwhile
            raise UpstreamRefused("invitation")
        audit.record(Event.SIGN_UP, actor_id=user.pk, user_id=user.pk, details={"provider": provider.slug})
    _insert(user.pk, provider, person)
    return user.pk


def _link(user: User, provider: UpstreamProvider, person: UpstreamPerson) -> Identity:
    """Link the identity and return it, cancel a pending change of address, tell the owner, and leave it in the trail.

    A stranger who has been in the account may have asked for the change. The caller ends the account's other sessions
    for the same reason (Sudhodanan & Paverd 2022: unexpired session, unexpired change of address).
    """
    identity = _insert(user.pk, provider, person)
    email_tokens.forget(user.pk, email_tokens.Purpose.CHANGE_EMAIL)
    outbox.enqueue(Kind.IDENTITY_LINKED, recipient=user.email, user_id=user.pk, facts={"provider": provider.name})
    audit.record(Event.IDENTITY_LINKED, actor_id=user.pk, user_id=user.pk, details={"provider": provider.slug})
    return identity


def _insert(user_id: UUID, provider: UpstreamProvider, person: UpstreamPerson) -> Identity:
    return Identity.objects.create(
        user_id=user_id,
        provider=provider,
        issuer=person.issuer,
        subject=person.subject,
        email=shown(person.email),
    )


class LinkedIdentity(NamedTuple):
    """An identity that a browser has shown and that is its person's now: of which provider, in which session there.

    ``is_new``: it was linked just now; the account's other sessions are to end.
    """

    provider_id: UUID
    slug: str
    subject: str
    sid: str
    is_new: bool


def link_waiting(*, user_id: UUID, waiting_id: UUID, browser: str) -> LinkedIdentity | None:
    """Link the identity that waits in this browser to the person who has just signed in, where it is not theirs yet.

    The tokens that have come with it are kept from now on.

    Args:
        user_id: Who has signed in.
        waiting_id: The sign-in in whose row the identity waits.
        browser: What this browser's cookie says.

    Returns:
        The identity; None where it is somebody else's, a second one of the same provider, or waits no longer.
    """
    user = user_queries.lock(user_id)  # first, as everywhere: who ends sessions or asks for another address waits
    waiting = _waiting_in(waiting_id, browser).first()
    if waiting is None or user is None or not user.is_active:
        return None
    UpstreamSignIn.objects.filter(pk=waiting_id).delete()
    person = UpstreamPerson(waiting.issuer, waiting.subject, waiting.email)
    identity = _held(user_id, person)
    is_new = identity is None
    if identity is None:
        try:
            with transaction.atomic():
                identity = _link(user, waiting.provider, person)
        except IntegrityError:
            return None
    kept_tokens.keep(identity, provider_id=waiting.provider_id, waiting=_bytes(waiting))
    return LinkedIdentity(waiting.provider_id, waiting.provider.slug, waiting.subject, waiting.sid, is_new)


def forget_waiting(*, provider_id: UUID, subject: str, sid: str) -> None:
    """Drop the identities that wait here and have been signed out at their provider. One query.

    Args:
        provider_id: The provider where they have signed out.
        subject: Whose sessions have ended there; "" for the one named by ``sid`` alone.
        sid: Which session; "" for all of the subject's.
    """
    named = {name: value for name, value in (("subject", subject), ("sid", sid)) if value}
    UpstreamSignIn.objects.filter(provider_id=provider_id, **named).exclude(subject="").delete()


def connect(*, user_id: UUID, provider_id: UUID, person: UpstreamPerson) -> str | None:
    """Link an identity to somebody who is signed in and has asked for it; the tokens that have come with it are kept.

    Args:
        user_id: Who has asked.
        provider_id: Where the identity is.
        person: Who they are there.

    Returns:
        The provider's short name, where the identity was linked now; None where it was theirs already.

    Raises:
        IdentityTaken: It is another account's, or they have one of this provider.
        NotAuthenticated: The account is gone or inactive.
        UpstreamRefused: The provider is no longer enabled.
    """
    user = user_rules.locked(user_id)
    provider = UpstreamProvider.objects.filter(pk=provider_id, enabled=True).first()
    if provider is None or len(person.issuer) > URI_CHARACTERS:
        raise UpstreamRefused("provider")
    identity = _held(user_id, person)
    is_new = identity is None
    if identity is None:
        try:
            with transaction.atomic():
                identity = _link(user, provider, person)
        except IntegrityError as error:
            raise IdentityTaken from error
    kept_tokens.keep(identity, provider_id=provider_id, waiting=person.tokens)
    return provider.slug if is_new else None


def _held(user_id: UUID, person: UpstreamPerson) -> Identity | None:
    """Return an identity that somebody has already. One query."""
    return Identity.objects.filter(user_id=user_id, issuer=person.issuer, subject=person.subject).first()


def require_usable(account: Credentials | None) -> Credentials:
    """Return the account of an identity.

    Raises:
        InvalidCredentials: It is gone, inactive, or its address has to be proved first.
    """
    if account is None or not account.is_active or emails.is_proof_awaited(account.email_verified_at):
        raise InvalidCredentials(_("This account cannot sign in. Ask the people who run this service."))
    return account


def shown(email: str) -> str:
    """Return an address as a provider says it, where it can be shown and kept; else nothing."""
    return email if len(email) <= emails.MAX_LENGTH and email.isprintable() else ""


def name_of(given: str) -> str:
    """Return the provider's name for a person, where an account may have it."""
    try:
        name = names.normalise(given)
        names.validate(name)
    except ValidationError:
        return ""
    return name
