"""Asking a provider for its document and keys now, so that an operator learns what is wrong before people do."""

from typing import Final

from accounts.federation.errors import UpstreamUnavailable
from accounts.federation.kinds.registry import KINDS
from accounts.federation.models import UpstreamProvider
from tokens.upstream import answers, discovery
from tokens.upstream.administration.outputs import TrialOut

NO_DOCUMENT: Final = "It has no discovery document; sign in with it to try it."
NO_KEY: Final = "It answers, and none of its keys is of a kind that is accepted here (RS256, ES256, EdDSA)."
_REASONS: Final = {"discovery": "its discovery document is missing, incomplete or another issuer's"}


async def of(provider: UpstreamProvider) -> TrialOut:
    """Return what a provider answers now. Two requests to it.

    Args:
        provider: The provider; it need not be enabled.
    """
    kind = KINDS[provider.kind]
    if kind.endpoints is not None:
        return TrialOut(None, 0, NO_DOCUMENT)
    try:
        where = await discovery.fetched(kind.issuer or provider.issuer)
        keys, _ = await discovery.keys(where.jwks_uri)
    except UpstreamUnavailable as error:
        cause = _REASONS.get(error.cause, error.cause)
        return TrialOut(False, 0, f"It does not answer: {cause}. Check the issuer.")
    if not keys:
        return TrialOut(False, 0, NO_KEY)
    uri = answers.redirect_uri(provider.slug)
    return TrialOut(True, len(keys), f"It answers, with {len(keys)} keys. Register {uri} there.")
