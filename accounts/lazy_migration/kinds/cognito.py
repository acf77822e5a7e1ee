"""Amazon Cognito: ``InitiateAuth`` with ``USER_PASSWORD_AUTH``, then ``GetUser``; neither needs credentials of AWS.

A challenge, such as a second factor or a new password, is a refusal: what it protects would be lost.
"""

import base64
from http import HTTPStatus
from typing import Any, Final

from django.conf import settings

from accounts.lazy_migration.conversation import Answer, Conversation, UnusableAnswerError
from accounts.lazy_migration.kinds.kind import Kind
from accounts.lazy_migration.kinds.password_grant import as_json
from accounts.transfer.records import Person
from accounts.transfer.sources import cognito as source
from ironauth.infrastructure.crypto.master_keys import keyed_mac

_SERVICE: Final = "AWSCognitoIdentityProviderService"
_REFUSALS: Final = frozenset(
    {
        "NotAuthorizedException",
        "UserNotFoundException",
        "UserNotConfirmedException",
        "PasswordResetRequiredException",
        "InvalidParameterException",  # a password or user name that it would never have taken
    }
)


def _ask(talk: Conversation, email: str, password: str) -> Person | None:
    known = {"USERNAME": email, "PASSWORD": password, **_secret_hash(email)}
    asked = {
        "AuthFlow": "USER_PASSWORD_AUTH",
        "ClientId": settings.IRONAUTH_LAZY_MIGRATION_CLIENT_ID,
        "AuthParameters": known,
    }
    answer = _call(talk, "InitiateAuth", asked)
    found = answer.json()
    if answer.status != HTTPStatus.OK:
        _judge_refusal(answer.status, found)
        return None
    if found.get("ChallengeName"):
        return None
    told = _call(talk, "GetUser", {"AccessToken": found["AuthenticationResult"]["AccessToken"]})
    if told.status != HTTPStatus.OK:
        raise UnusableAnswerError(told.status)
    return source.SOURCE.person(told.json())


def _call(talk: Conversation, name: str, parameters: dict[str, Any]) -> Answer:
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"{_SERVICE}.{name}"}
    return talk.send("POST", settings.IRONAUTH_LAZY_MIGRATION_URL, headers=headers, body=as_json(parameters))


def _secret_hash(username: str) -> dict[str, str]:
    """Return what proves the client's secret, where it has one: HMAC-SHA-256 of user name and client id, in Base64."""
    if not settings.IRONAUTH_LAZY_MIGRATION_SECRET:
        return {}
    message = username + settings.IRONAUTH_LAZY_MIGRATION_CLIENT_ID
    digest = keyed_mac(settings.IRONAUTH_LAZY_MIGRATION_SECRET.encode(), message.encode())
    return {"SECRET_HASH": base64.b64encode(digest).decode()}


def _judge_refusal(status: int, found: dict[str, Any]) -> None:
    """Return where the refusal is about the person; raise ``UnusableAnswerError`` where it is about the client."""
    kind = str(found["__type"]).rpartition("#")[2]
    about_client = "secret" in str(found.get("message", "")).lower() or "flow not enabled" in str(found).lower()
    if kind not in _REFUSALS or about_client:
        raise UnusableAnswerError(status)


KIND = Kind("cognito", source.SOURCE.name, _ask)
