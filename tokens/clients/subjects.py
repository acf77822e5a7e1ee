"""Who a person is to a client: the ``sub`` of its tokens, of userinfo and introspection (OpenID Connect Core §2, §8).

Public: the user's id. It is never given twice: somebody who is deleted and comes back is another user.

Pairwise: that id under a cipher whose key only this server has, one for each sector (§8.1). The result never changes,
belongs to one person only and has the form of an id, and only this server can tell whose it is. So a pairwise client's
access tokens have the same ``sub`` as its ID tokens, and never give the public id away.
"""

from uuid import UUID

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from tokens.clients.registry import Client


def subject_id(client: Client, user_id: UUID) -> UUID:
    """Return the person's ``sub`` for this client; always the same, and never another person's.

    Args:
        client: Whether it is pairwise, and its sector.
        user_id: The person.
    """
    if not client.sector_key:
        return user_id
    return UUID(bytes=_cipher(client).encryptor().update(user_id.bytes))


def subject_of(client: Client, user_id: UUID) -> str:
    """Return ``subject_id`` as it is sent.

    Args:
        client: The client that is told.
        user_id: The person.
    """
    return str(subject_id(client, user_id))


def user_of(client: Client, subject: UUID) -> UUID:
    """Return whose ``sub`` for this client it is; an id that nobody has for one that this server never made.

    Args:
        client: The client that was told.
        subject: A ``sub``, which may be made up.
    """
    if not client.sector_key:
        return subject
    return UUID(bytes=_cipher(client).decryptor().update(subject.bytes))


def sid_of(client: Client, session_id: UUID) -> str:
    """Return the ``sid`` by which this client knows an SSO session.

    Under the same key as people are: a session that two pairwise clients knew by one name would tell them whose it is.

    Args:
        client: The client that is told.
        session_id: The SSO session.
    """
    return str(subject_id(client, session_id))


def session_of(client: Client, sid: UUID) -> UUID:
    """Return the SSO session that this client knows by this ``sid``.

    Args:
        client: The client that was told.
        sid: A ``sid``, which may be made up.
    """
    return user_of(client, sid)


def _cipher(client: Client) -> Cipher[ECB]:
    """Return what maps every id to another one. An id is one block, so there is nothing for a mode to chain."""
    return Cipher(AES(client.sector_key), ECB())  # noqa: S305 - see the docstring
