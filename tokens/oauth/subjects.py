"""Who a person is to a client: the ``sub`` of tokens and userinfo (OpenID Connect Core §2, §8)."""

from uuid import UUID

from tokens.oauth.clients import Client


def subject_id(_client: Client, user_id: UUID) -> UUID:
    """Return the person's ``sub`` for this client; the same for ever, and never another person's."""
    return user_id


def subject_of(client: Client, user_id: UUID) -> str:
    """Return ``subject_id`` as it is sent."""
    return str(subject_id(client, user_id))
