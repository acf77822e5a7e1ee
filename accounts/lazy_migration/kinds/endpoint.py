"""An endpoint of the operator's: it gets address and password as JSON, and describes the person.

It answers 200 with the form of a line of ``import_users`` (``accounts.transfer.sources.jsonl``), or 401, 403 or 404
for a password that is not right. The secret of an authenticator app may be in it, and is asked for at once.
"""

from http import HTTPStatus

from django.conf import settings

from accounts.lazy_migration.conversation import Conversation, UnusableAnswerError
from accounts.lazy_migration.kinds.kind import Kind
from accounts.lazy_migration.kinds.password_grant import as_json
from accounts.transfer.records import Person
from accounts.transfer.sources import jsonl as source

_REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


def _ask(talk: Conversation, email: str, password: str) -> Person | None:
    headers = {"Content-Type": "application/json"}
    if settings.IRONAUTH_LAZY_MIGRATION_SECRET:
        headers["Authorization"] = f"Bearer {settings.IRONAUTH_LAZY_MIGRATION_SECRET}"
    body = as_json({"email": email, "password": password})
    answer = talk.send("POST", settings.IRONAUTH_LAZY_MIGRATION_URL, headers=headers, body=body)
    if answer.status in _REFUSALS:
        return None
    if answer.status != HTTPStatus.OK:
        raise UnusableAnswerError(answer.status)
    return source.SOURCE.person(answer.json())


KIND = Kind("endpoint", source.SOURCE.name, _ask)
