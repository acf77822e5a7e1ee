"""Find or make the Django user of a person at the server; open and end sessions."""

import hashlib
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.utils import timezone

from ironauth_client.django.conf import setting
from ironauth_client.django.models import Identity, OpenSession
from ironauth_client.errors import SignInFailed
from ironauth_client.tokens import Claims

#: Where a browser's session keeps the key of its row.
SESSION_KEY: Final = "ironauth_open_session"
NAME_LENGTH: Final = 150


def find(claims: Claims) -> Identity | None:
    """Return the identity that an ID token or access token names, None if it never signed in here."""
    rows = Identity.objects.select_related("user")
    return rows.filter(issuer=claims.issuer, subject=claims.subject).first()


def find_or_create(claims: Claims) -> Identity:
    """Return the identity that an ID token names, with a new user if it is new.

    An existing user is never found by e-mail address: who holds an address there may be another person than here.

    Raises:
        SignInFailed: The person is new, and the site makes no users, or its users need an address that is not
            verified or is taken.
    """
    known = find(claims)
    if known is not None:
        return known
    if not setting("CREATE_USERS"):
        raise SignInFailed("nobody here is this person")
    try:
        with transaction.atomic():
            user = new_user(claims)
            user.save()
            return Identity.objects.create(user=user, issuer=claims.issuer, subject=claims.subject)
    except IntegrityError as error:  # another request of the same person was faster, or the name is taken
        known = find(claims)
        if known is None:
            raise SignInFailed("the name or address of this person is taken here") from error
        return known


def new_user(claims: Claims) -> Any:
    """Return a user that is not yet stored, without a password.

    Raises:
        SignInFailed: The site's users are named by an address, and this person's is not verified.
    """
    model: Any = get_user_model()
    said = claims.everything
    given = said.get("email") if said.get("email_verified") is True else ""
    email = given if isinstance(given, str) else ""
    user = model()
    if model.get_email_field_name() == model.USERNAME_FIELD:
        if not email or model.objects.filter(**{f"{model.USERNAME_FIELD}__iexact": email}).exists():
            raise SignInFailed("the address of this person is not verified, or is taken here")
        setattr(user, model.USERNAME_FIELD, email)
    else:
        hashed = hashlib.sha256(f"{claims.issuer} {claims.subject}".encode()).hexdigest()[:32]
        setattr(user, model.USERNAME_FIELD, f"ironauth-{hashed}")
        _fill(user, model.get_email_field_name(), email)
    name = said.get("name")
    _fill(user, "first_name", name[:NAME_LENGTH] if isinstance(name, str) else "")
    user.set_unusable_password()
    return user


def _fill(user: Any, field: str, value: str) -> None:
    if hasattr(user, field):
        setattr(user, field, value)


def oldest() -> Any:
    """Return when the oldest sign-in began that is still open."""
    return timezone.now() - timedelta(seconds=setting("SESSION_S") or settings.SESSION_COOKIE_AGE)


def open_session(identity: Identity, sid: str) -> int:
    """Store a sign-in and return its key; sign-ins that are too old to be open are deleted."""
    OpenSession.objects.filter(created_at__lte=oldest()).delete()
    row = OpenSession.objects.create(identity=identity, sid=sid, created_at=timezone.now())
    return int(row.pk)


def is_open(key: object) -> bool:
    """Return whether a sign-in has not ended."""
    return isinstance(key, int) and OpenSession.objects.filter(pk=key, created_at__gt=oldest()).exists()


def end(key: object) -> None:
    """End one sign-in."""
    if isinstance(key, int):
        OpenSession.objects.filter(pk=key).delete()


def end_by(claims: Claims) -> int:
    """End what a logout token names: the sessions of its ``sid``, or all of its person; return how many."""
    rows = OpenSession.objects.filter(identity__issuer=claims.issuer, identity__subject=claims.subject)
    if claims.session_id:
        rows = rows.filter(sid=claims.session_id)
    return rows.delete()[0]
