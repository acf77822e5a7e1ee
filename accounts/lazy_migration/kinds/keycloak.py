"""Keycloak: the password grant of a realm ("direct access grants" of the client), then its userinfo endpoint.

A person with an authenticator app there is refused by it like a wrong password: they are moved by ``import_users``.
"""

from django.conf import settings

from accounts.lazy_migration.conversation import Conversation
from accounts.lazy_migration.kinds import password_grant
from accounts.lazy_migration.kinds.kind import Kind
from accounts.transfer.records import Person
from accounts.transfer.sources import keycloak as source


def _ask(talk: Conversation, email: str, password: str) -> Person | None:
    base = f"{settings.IRONAUTH_LAZY_MIGRATION_URL}/protocol/openid-connect"
    form = {"grant_type": "password", "username": email, "password": password}
    token = password_grant.granted(talk, f"{base}/token", form, {"invalid_grant"})
    return None if token is None else password_grant.told_of(talk, f"{base}/userinfo", token)


KIND = Kind("keycloak", source.SOURCE.name, _ask)
