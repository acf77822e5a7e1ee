"""Auth0: the password grant, of one connection where one is named, then ``/userinfo``.

``mfa_required`` is a refusal: the person's second factor would be lost. Auth0 counts wrong passwords by the caller's
address: allow this server's there.
"""

from typing import Final

from django.conf import settings

from accounts.lazy_migration.conversation import Conversation
from accounts.lazy_migration.kinds import password_grant
from accounts.lazy_migration.kinds.kind import Kind
from accounts.transfer.records import Person
from accounts.transfer.sources import auth0 as source

#: A grant type that Auth0 has invented for the password of a named connection.
_OF_CONNECTION: Final = "http://auth0.com/oauth/grant-type/password-realm"
#: What its token endpoint says of a person: a wrong password, more than a password wanted, blocked, refused by an
#: action of the tenant, a password known from a breach, too many tries.
_REFUSALS: Final = frozenset(
    {"invalid_grant", "mfa_required", "unauthorized", "access_denied", "password_leaked", "too_many_attempts"}
)


def _ask(talk: Conversation, email: str, password: str) -> Person | None:
    base = settings.IRONAUTH_LAZY_MIGRATION_URL
    realm = settings.IRONAUTH_LAZY_MIGRATION_REALM
    grant = {"grant_type": _OF_CONNECTION, "realm": realm} if realm else {"grant_type": "password"}
    form = {**grant, "username": email, "password": password}
    token = password_grant.granted(talk, f"{base}/oauth/token", form, _REFUSALS)
    return None if token is None else password_grant.told_of(talk, f"{base}/userinfo", token)


KIND = Kind("auth0", source.SOURCE.name, _ask)
