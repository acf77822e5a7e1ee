"""Access tokens for registered APIs on the wire: as the codec's, signed with whatever the API verifies.

Nothing that is decoded here opens this server's own API: a token whose ``aud`` names that one is the codec's alone.
"""

from tokens.access import codec, signed_tokens
from tokens.access.codec import VerifiedToken
from tokens.errors import InvalidToken
from tokens.keys.key_set import KeySet


def decode(token: str, keys: KeySet, *, now: float) -> VerifiedToken:
    """Return what an access token says that is ours and in force at ``now``, whichever audience it is for.

    Args:
        token: The text as it was received.
        keys: The keys that this server signs with, or did.
        now: Unix seconds.

    Raises:
        UnknownKey: Its key is not in ``keys``.
        InvalidToken: Any other reason.
    """
    if signed_tokens.verified(token, keys, typ=codec.TYP, now=now) is None:
        return codec.decode(token, keys, now=now)  # it knows other spellings of the type, and the reason
    claims = codec.claims_of(token)
    if codec.is_own(claims.aud):
        return codec.decode(token, keys, now=now)
    if not claims.aud:
        raise InvalidToken("aud")
    codec.check_claims(claims, now)
    return VerifiedToken(claims, str(codec.header_of(token)["kid"]))
