"""What a provider is asked and what it answers: the authorization request, the exchange of its code, who it names."""

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus, urlencode

from django.conf import settings

from accounts.federation import kept_tokens
from accounts.federation.errors import UpstreamRefused, UpstreamUnavailable
from accounts.federation.kinds.github import GitHub
from accounts.federation.kinds.kind import Endpoints, UpstreamPerson
from accounts.profile import FIELDS
from ironauth.infrastructure.core import base64url, strict_json
from ironauth.infrastructure.crypto.master_keys import mac, register_purpose
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.upstream import client_secret, discovery, exchange, id_token
from tokens.upstream.providers import Provider

_NONCE: Final = register_purpose("ironauth upstream nonce")
_VERIFIER: Final = register_purpose("ironauth upstream PKCE verifier")


def redirect_uri(slug: str) -> str:
    """Return where a provider sends people back: an address of its own, so that no provider answers for another."""
    return f"{settings.IRONAUTH_ISSUER}/oauth/upstream/{slug}"


def request_of(
    provider: Provider, where: Endpoints, state: str, *, login_hint: str = "", max_age_s: int | None = None
) -> str:
    """Return the address at the provider that somebody is sent to.

    Args:
        provider: Where they sign in.
        where: Its endpoints.
        state: What it gives back; nonce and PKCE verifier are made of it.
        login_hint: The address they have typed, if any.
        max_age_s: As of ``services.begin``.
    """
    asked = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": redirect_uri(provider.slug),
        "scope": provider.scope,
        "state": state,
        "code_challenge": base64url.encode(hashlib.sha256(_verifier(state).encode()).digest()),
        "code_challenge_method": "S256",
        **({"nonce": _nonce(state)} if where.jwks_uri else {}),
        **({"login_hint": login_hint} if login_hint else {}),
        **(_anew(max_age_s) if max_age_s is not None and provider.kind.asks_anew else {}),
        **provider.kind.parameters,
        **(provider.kind.offline_parameters if provider.keep_tokens else {}),
    }
    joint = "&" if "?" in where.authorization else "?"
    return f"{where.authorization}{joint}{urlencode(asked, quote_via=quote)}"


def _anew(max_age_s: int) -> dict[str, str]:
    """Return what asks a provider for a recent proof (§3.1.2.1); ``max_age`` has it say in the token when that was."""
    return {"max_age": str(max_age_s), **({"prompt": "login"} if max_age_s == 0 else {})}


def _nonce(state: str) -> str:
    """Return the nonce of a sign-in: made of its state, so that no row holds it."""
    return base64url.encode(mac(_NONCE, state.encode()))


def _verifier(state: str) -> str:
    """Return the PKCE verifier of a sign-in, made the same way: who sees the state cannot make it."""
    return base64url.encode(mac(_VERIFIER, state.encode()))


async def person_of(provider: Provider, answer: Mapping[str, str]) -> UpstreamPerson:
    """Return the person the provider means: the code is exchanged, and what it signed is judged.

    Where the provider's tokens are kept, they come with the person, sealed.

    Args:
        provider: Which one it is.
        answer: The parameters the browser has brought, with the ``state`` of ``request_of``.

    Raises:
        UpstreamRefused: (401) the provider refused, or its answer does not hold.
        UpstreamUnavailable: (503) it does not answer.
    """
    where = await discovery.endpoints(provider.id, provider.issuer, provider.kind)
    # Mix-up (RFC 9700 §4.4): the answer is of the provider whose redirect URI it came to; and RFC 9207.
    if where.jwks_uri and answer.get("iss", "" if where.says_iss else where.issuer) != where.issuer:
        raise UpstreamRefused("iss_parameter")
    if "error" in answer or not answer.get("code"):
        raise UpstreamRefused("refused_there")
    tokens = await _redeemed(provider, where, answer["state"], answer["code"])
    person = await _named(provider, where, answer, tokens)
    return person._replace(tokens=_sealed(provider, person, tokens)) if provider.keep_tokens else person


async def _named(
    provider: Provider, where: Endpoints, answer: Mapping[str, str], tokens: Mapping[str, Any]
) -> UpstreamPerson:
    """Return the person that the token endpoint's answer is about."""
    if not where.jwks_uri:
        return await _github(provider, str(tokens.get("access_token", "")))
    claims = await id_token.verified(
        str(tokens.get("id_token", "")),
        client_id=provider.client_id,
        nonce=_nonce(answer["state"]),
        endpoints=where,
        kind=provider.kind,
    )
    beside = {"user": _user(answer.get("user", ""))} if provider.kind.signs_secret else {}
    more = await _more(provider, where, claims, tokens.get("access_token"))
    return provider.kind.person({**more, **claims, **beside})


def _sealed(provider: Provider, person: UpstreamPerson, answer: Mapping[str, Any]) -> bytes | None:
    """Return the tokens to keep; None, which is logged, where the answer has none that can be used."""
    tokens = kept_tokens.told(answer, kind=provider.kind, asked=provider.scope)
    if tokens is None:
        get_logger().warning("upstream_tokens_unusable", provider=provider.slug)
        return None
    client = kept_tokens.Client(provider.issuer, provider.client_id)
    return kept_tokens.on_their_way(tokens, provider_id=provider.id, client=client, person=person)


def _user(text: str) -> Any:
    """Return what a provider has the browser bring beside the code; None where it is no JSON."""
    try:
        return strict_json.loads(text)
    except strict_json.InvalidJson:
        return None


async def _more(provider: Provider, where: Endpoints, claims: Mapping[str, Any], token: Any) -> dict[str, Any]:
    """Return what userinfo says of the person, where the ID token has no address (OpenID Connect Core §5.3, §5.4)."""
    if "email" in claims or not where.userinfo or not provider.kind.asks_userinfo or not isinstance(token, str):
        return {}
    told = await exchange.get(where.userinfo, token=token)
    if not isinstance(told, dict) or told.get("sub") != claims.get("sub"):  # §5.3.2: else it is somebody else's
        raise UpstreamRefused("userinfo")
    return {name: told.get(name) for name in ("email", "email_verified", "name", *FIELDS) if name in told}


async def _redeemed(provider: Provider, where: Endpoints, state: str, code: str) -> dict[str, Any]:
    """Return the answer of the token endpoint."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri(provider.slug),
        "code_verifier": _verifier(state),
    }
    return await _granted(provider, where, form)


async def renewed(provider: Provider, refresh_token: str) -> dict[str, Any]:
    """Return what a provider's token endpoint answers to a refresh token (RFC 6749 §6), which is sent once.

    Args:
        provider: Which one it is.
        refresh_token: What it has given.

    Raises:
        UpstreamRefused: (401) it refused; ``said`` is its error code.
        UpstreamUnavailable: (503) it does not answer.
    """
    where = await discovery.endpoints(provider.id, provider.issuer, provider.kind)
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    return await _granted(provider, where, form, once=True)


async def _granted(provider: Provider, where: Endpoints, form: dict[str, str], *, once: bool = False) -> dict[str, Any]:
    """Return the answer of the token endpoint to a form, to which our credentials are added; ``once``: as of `post`."""
    headers = {}
    secret = _secret(provider)
    if "client_secret_basic" in where.auth_methods or "client_secret_post" not in where.auth_methods:
        # RFC 6749 §2.3.1: both are form-encoded first.
        pair = f"{quote_plus(provider.client_id)}:{quote_plus(secret)}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    else:
        form |= {"client_id": provider.client_id, "client_secret": secret}
    tokens = await exchange.post(where.token, form, headers, once=once)
    if not isinstance(tokens, dict) or "error" in tokens:
        said = tokens.get("error") if isinstance(tokens, dict) else None
        raise UpstreamRefused("code", said=said if isinstance(said, str) else "")
    return tokens


def _secret(provider: Provider) -> str:
    """Return the client secret for one request."""
    if not provider.kind.signs_secret:
        return provider.secret
    try:
        return client_secret.signed(provider.secret, client_id=provider.client_id, audience=provider.issuer)
    except client_secret.InvalidSecretError as error:
        raise UpstreamUnavailable("secret") from error


async def _github(provider: Provider, token: str) -> UpstreamPerson:
    """Return the person of GitHub's two answers."""
    kind = provider.kind
    if not token or not isinstance(kind, GitHub):
        raise UpstreamRefused("access_token")
    user, emails = await exchange.get(kind.user_uri, token=token), await exchange.get(kind.emails_uri, token=token)
    return kind.person({"user": user, "emails": emails})
