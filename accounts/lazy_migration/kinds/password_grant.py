"""What systems with a password grant (RFC 6749 §4.3) and a userinfo endpoint (OpenID Connect Core §5.3) share."""

import json
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django.conf import settings

from accounts.lazy_migration.conversation import Conversation, UnusableAnswerError
from accounts.transfer.records import Person, flag, profile_of, text


def granted(talk: Conversation, url: str, form: Mapping[str, str], refusals: Collection[str]) -> str | None:
    """Return an access token for a right password, and None for a wrong one.

    Args:
        talk: With the old system.
        url: Its token endpoint.
        form: The grant and the person; the client is added.
        refusals: Values of ``error`` that mean that this person does not get in by this password.

    Raises:
        UnusableAnswerError: The refusal is about the client or the request, not about the person.
    """
    client = {"client_id": settings.IRONAUTH_LAZY_MIGRATION_CLIENT_ID}
    if settings.IRONAUTH_LAZY_MIGRATION_SECRET:
        client["client_secret"] = settings.IRONAUTH_LAZY_MIGRATION_SECRET
    body = urlencode({**client, "scope": "openid profile email", **form}).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = talk.send("POST", url, headers=headers, body=body)
    found = answer.json()
    if answer.status != HTTPStatus.OK:
        if found["error"] not in refusals:
            raise UnusableAnswerError(answer.status)
        return None
    if not isinstance(found["access_token"], str):
        raise UnusableAnswerError(answer.status)
    return found["access_token"]


def told_of(talk: Conversation, url: str, token: str) -> Person:
    """Return who the person of an access token is.

    Args:
        talk: With the old system.
        url: Its userinfo endpoint.
        token: What the password was right for.

    Raises:
        UnusableAnswerError: The token is not accepted there.
    """
    answer = talk.send("GET", url, headers={"Authorization": f"Bearer {token}"})
    if answer.status != HTTPStatus.OK:
        raise UnusableAnswerError(answer.status)
    claims: dict[str, Any] = answer.json()
    names = " ".join(filter(None, (text(claims, "given_name"), text(claims, "family_name"))))
    return Person(
        external_id=text(claims, "sub"),
        email=text(claims, "email"),
        email_verified=flag(claims, "email_verified"),
        name=text(claims, "name") or names,
        profile=profile_of(claims),
    )


def as_json(value: Mapping[str, Any]) -> bytes:
    """Return the body of a request whose content is JSON."""
    return json.dumps(value).encode()
