"""What a stranger's client says about itself (RFC 7591 §2): judged, and made fields of a client.

One reading for both ways in: a registration, and a client ID metadata document. What is not known here is ignored, as
RFC 7591 §2 asks; what cannot be had is left out where the client can go on without, and refused where it cannot.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings

from accounts import names
from accounts.access.scopes import SCOPES as ADMINISTRATION
from ironauth.config.table.strangers import NEVER
from tokens.clients import profiles, redirect_uris, rules
from tokens.clients.errors import InvalidClientMetadata, InvalidRedirectUri
from tokens.clients.fetched import addresses, sectors
from tokens.clients.models import NAME_CHARACTERS, OAuthClient
from tokens.clients.presets import ID_TOKEN_ALG
from tokens.clients.profiles import AGENT_GRANTS
from tokens.protocol import GrantType, Scope, is_scope, scope_set
from tokens.resources.queries import open_to_self_registered

#: Ways of a client to prove who it is (RFC 7591 §2), and what they are called here.
METHODS: Final[Mapping[str, str]] = {
    "none": OAuthClient.AuthMethod.NONE.value,
    "client_secret_basic": OAuthClient.AuthMethod.SECRET.value,
    "client_secret_post": OAuthClient.AuthMethod.SECRET.value,
    "private_key_jwt": OAuthClient.AuthMethod.PRIVATE_KEY_JWT.value,
}
#: What signs its ID tokens (OpenID Connect Registration §2); EdDSA has two names.
ALGORITHMS: Final[Mapping[str, str]] = {
    "RS256": OAuthClient.IdTokenAlg.RS256.value,
    "ES256": OAuthClient.IdTokenAlg.ES256.value,
    "EdDSA": OAuthClient.IdTokenAlg.ED25519.value,
    "Ed25519": OAuthClient.IdTokenAlg.ED25519.value,
}
#: Addresses that it registers beside those of its answers: its keys, and what people are shown.
_OTHER_ADDRESSES: Final = ("jwks_uri", "logo_uri", "policy_uri", "tos_uri")
_SHOWN: Final = {
    "logo_uri": addresses.problem_of, "policy_uri": addresses.problem_of_link, "tos_uri": addresses.problem_of_link,
}  # fmt: skip
_UNSIGNED: Final = OAuthClient.RequestAlg.UNSIGNED.value
#: Profiles of clients that nobody of staff has looked at.
_STRANGERS: Final = frozenset({OAuthClient.Profile.AGENT.value, OAuthClient.Profile.OIDC.value})
#: Names of fields in the client's own words, for refusals.
_MEMBERS: Final = {
    "name": "client_name", "auth_method": "token_endpoint_auth_method", "grants": "grant_types", "scopes": "scope",
    "id_token_alg": "id_token_signed_response_alg",
}  # fmt: skip


def scopes_for_strangers() -> frozenset[str]:
    """Return the scopes that a client may have which nobody of staff has made: none of a person's rights here."""
    return frozenset(settings.IRONAUTH_REGISTRATION_SCOPES) - NEVER - ADMINISTRATION.keys()


def client_of(
    said: object,
    *,
    methods: Iterable[str] = METHODS,
    client: OAuthClient | None = None,
    without_pkce: bool = False,
) -> OAuthClient:
    """Return the client that this metadata describes, with every rule of the house kept; nothing is stored.

    Args:
        said: The JSON that was sent.
        methods: Ways to prove who it is that are open to it.
        client: The client as it is, to be described anew; None for a new one.
        without_pkce: Whether one that keeps a secret or a key gets the profile ``oidc``, which does without PKCE.

    Raises:
        InvalidRedirectUri: An address is missing or cannot be registered.
        InvalidClientMetadata: Anything else is not accepted; the description names the member.
    """
    if not isinstance(said, dict):
        raise InvalidClientMetadata
    fields = _fields(said, methods)
    told = fields["backchannel_logout_uri"]
    is_new = bool(told) and (client is None or told != client.backchannel_logout_uri)
    if is_new and (refused := addresses.problem_of(told)):
        raise InvalidClientMetadata(_ascii(f"backchannel_logout_uri: {refused}"))
    if client is None:
        initial = profiles.initial(OAuthClient.Profile.AGENT)
        client = OAuthClient(**{**initial, "origin": OAuthClient.Origin.REGISTERED, **fields})
    else:
        if client.sector_identifier_uri or client.redirect_uris != fields["redirect_uris"]:
            fields.setdefault("sector", "")  # that of the addresses it has now: nobody stays in a sector it has left
        for name, value in fields.items():
            setattr(client, name, value)
    if client.verified_at is None and client.profile in _STRANGERS:  # another profile is what staff gave it
        optional = without_pkce and client.auth_method != OAuthClient.AuthMethod.NONE
        client.profile = (OAuthClient.Profile.OIDC if optional else OAuthClient.Profile.AGENT).value
        client.require_pkce = not optional
    for one in rules.problems_of(client):
        refusal = InvalidRedirectUri if one.field == "redirect_uris" else InvalidClientMetadata
        raise refusal(_ascii(f"{_MEMBERS.get(one.field, one.field)}: {one.message}"))
    return client


def metadata_of(client: OAuthClient) -> dict[str, Any]:
    """Return what is registered of a client, in the words of RFC 7591 §2.

    Args:
        client: A client that registered itself.
    """
    methods = {value: name for name, value in reversed(list(METHODS.items()))}
    algorithms = {value: name for name, value in reversed(list(ALGORITHMS.items()))}
    return {
        "client_id": client.public_id,
        "client_id_issued_at": int(client.created_at.timestamp()),
        "client_name": client.name,
        "redirect_uris": client.redirect_uris,
        "post_logout_redirect_uris": client.post_logout_redirect_uris,
        **_told_of_sign_outs(client),
        "token_endpoint_auth_method": methods.get(client.auth_method, client.auth_method),
        "grant_types": client.grants,
        "response_types": ["code"],
        "scope": " ".join(client.scopes),
        "id_token_signed_response_alg": algorithms[client.id_token_alg],
        "subject_type": client.subject_type,
        "dpop_bound_access_tokens": client.dpop == OAuthClient.Policy.REQUIRED,
        "require_pushed_authorization_requests": client.require_par,
        **({"jwks": client.jwks} if client.jwks is not None else {}),
        **{
            name: getattr(client, name)
            for name in (*_OTHER_ADDRESSES, "sector_identifier_uri")
            if getattr(client, name)
        },
        **({"request_uris": client.request_uris} if client.request_uris else {}),
        **({"request_object_signing_alg": signed} if (signed := client.request_object_signing_alg) else {}),
        **({"userinfo_signed_response_alg": algorithms[told]} if (told := client.userinfo_signed_response_alg) else {}),
    }


def _told_of_sign_outs(client: OAuthClient) -> dict[str, Any]:
    """Return where it hears of sign-outs; each logout token says of which session, whether or not it asked for that."""
    uri = client.backchannel_logout_uri
    return {"backchannel_logout_uri": uri, "backchannel_logout_session_required": True} if uri else {}


def _fields(said: Mapping[str, Any], methods: Iterable[str]) -> dict[str, Any]:
    redirects = _addresses(said, "redirect_uris")
    if not redirects:
        raise InvalidRedirectUri
    grants = _grants(said)
    method = _text(said, "token_endpoint_auth_method", "client_secret_basic")
    if method not in methods:
        raise InvalidClientMetadata(f"token_endpoint_auth_method: write one of {', '.join(methods)}.")
    requests, request_uris = _requests(said)
    signs = METHODS[method] == OAuthClient.AuthMethod.PRIVATE_KEY_JWT or requests not in ("", _UNSIGNED)
    by_address = _addresses_of_others(said)
    if not signs:  # they would be used for nothing
        by_address["jwks_uri"] = ""
    algorithm, told = (_algorithm(said, name) for name in ("id_token_signed", "userinfo_signed"))
    subjects = _text(said, "subject_type", OAuthClient.Subject.PUBLIC.value)
    if subjects not in OAuthClient.Subject.values:
        raise InvalidClientMetadata("subject_type: write public or pairwise.")
    _flag(said, "backchannel_logout_session_required")  # each logout token has a sid, whatever it says
    return {
        "name": _name(said, redirects),
        "auth_method": METHODS[method],
        "redirect_uris": redirects,
        "post_logout_redirect_uris": _addresses(said, "post_logout_redirect_uris"),
        "backchannel_logout_uri": _text(said, "backchannel_logout_uri", ""),
        "grants": grants,
        "scopes": _scopes(said, grants),
        "jwks": said.get("jwks") if signs else None,
        **by_address,
        **_sector(said, subjects),
        "request_uris": request_uris,
        "request_object_signing_alg": requests,
        "userinfo_signed_response_alg": told,
        "id_token_alg": algorithm or ID_TOKEN_ALG,
        "subject_type": subjects,
        "dpop": (
            OAuthClient.Policy.REQUIRED if _flag(said, "dpop_bound_access_tokens") else OAuthClient.Policy.OPTIONAL
        ).value,
        "require_par": _flag(said, "require_pushed_authorization_requests"),
    }


def _algorithm(said: Mapping[str, Any], which: str) -> str:
    """Return what signs one kind of answer to it, "" where it does not say."""
    asked = _text(said, f"{which}_response_alg", "")
    if asked and asked not in ALGORITHMS:
        raise InvalidClientMetadata(f"{which}_response_alg: write one of {', '.join(ALGORITHMS)}.")
    return ALGORITHMS[asked] if asked else ""


def _addresses_of_others(said: Mapping[str, Any]) -> dict[str, str]:
    """Return its addresses of keys, which the rules of every client judge, of its logo and texts.

    People do without a logo and texts whose addresses cannot be shown.
    """
    given = {name: _text(said, name, "") for name in _OTHER_ADDRESSES}
    for name, problem_of in _SHOWN.items():
        if given[name] and problem_of(given[name]):
            given[name] = ""
    return given


def _requests(said: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return what signs its request objects, and where they are; nothing of addresses while none is fetched.

    A client may name addresses and no algorithm (OpenID Connect Registration §2). Its requests are unsigned then, which
    the answer tells it: the address vouches for them.
    """
    alg, uris = _text(said, "request_object_signing_alg", ""), _list(said, "request_uris", [])
    if settings.IRONAUTH_REQUEST_URIS:
        return alg or (_UNSIGNED if uris else ""), uris
    return "" if alg == _UNSIGNED else alg, []


def _sector(said: Mapping[str, Any], subjects: str) -> dict[str, str]:
    """Return its sector (OpenID Connect Core §8.1); whether the list there names it is judged when it is stored.

    Without an address a pairwise client keeps the sector it has, or gets the host of its addresses.
    """
    uri = _text(said, "sector_identifier_uri", "")
    host = sectors.host_of(uri) if uri else ""
    if subjects != OAuthClient.Subject.PAIRWISE:
        return {"sector_identifier_uri": uri, "sector": ""}
    return {"sector_identifier_uri": uri, **({"sector": host} if uri else {})}


def _addresses(said: Mapping[str, Any], member: str) -> list[str]:
    """Return a list of addresses, each once, all of which can be registered."""
    given = _list(said, member, [], InvalidRedirectUri)
    if len(given) > rules.MAX_URIS:
        raise InvalidRedirectUri(f"{member}: at most {rules.MAX_URIS} addresses can be registered.")
    found: list[str] = []
    for at, uri in enumerate(given, start=1):
        problem = redirect_uris.problem_of(uri)
        if problem is not None:
            raise InvalidRedirectUri(_ascii(f"{member}, no. {at}: {problem}"))
        if uri not in found:
            found.append(uri)
    return found


def _grants(said: Mapping[str, Any]) -> list[str]:
    """Return the grants it gets of those it asks for (RFC 7591 §2 lets the server leave some out)."""
    asked = _list(said, "grant_types", [GrantType.AUTHORIZATION_CODE.value])
    if GrantType.AUTHORIZATION_CODE not in asked:
        raise InvalidClientMetadata("grant_types: an application that registers itself needs authorization_code.")
    if "code" not in _list(said, "response_types", ["code"]):
        raise InvalidClientMetadata("response_types: only code is supported.")
    return sorted(AGENT_GRANTS & set(asked))


def _scopes(said: Mapping[str, Any], grants: list[str]) -> list[str]:
    """Return the scopes it gets: of those it names, or of all, those that strangers may have.

    The scopes of APIs that are open to it are not stored with it (``targets.granted``): the API says for how long.
    """
    asked = _text(said, "scope", "")
    if asked and not is_scope(asked):
        raise InvalidClientMetadata("scope is no list of scopes separated by single spaces (RFC 6749, section 3.3).")
    given = scopes_for_strangers() & scope_set(asked) if asked else scopes_for_strangers()
    if GrantType.REFRESH_TOKEN not in grants:
        given -= {Scope.OFFLINE_ACCESS}
    if not given and not scope_set(asked) & open_to_self_registered():
        raise InvalidClientMetadata("scope names nothing that an application which registers itself may have here.")
    return sorted(given)


def _name(said: Mapping[str, Any], redirects: list[str]) -> str:
    """Return its name, or for want of one where it is answered at."""
    given = names.normalise(_text(said, "client_name", ""))
    if given:
        return given
    parts = urlsplit(redirects[0])
    return (parts.hostname or parts.scheme)[:NAME_CHARACTERS]


def _text(said: Mapping[str, Any], member: str, default: str) -> str:
    value = said.get(member)
    if value is None:
        return default
    if not isinstance(value, str):
        raise InvalidClientMetadata(f"{member} is no text.")
    return value


def _flag(said: Mapping[str, Any], member: str) -> bool:
    value = said.get(member, False)
    if not isinstance(value, bool):
        raise InvalidClientMetadata(f"{member} is neither true nor false.")
    return value


def _list(
    said: Mapping[str, Any],
    member: str,
    default: list[str],
    refusal: type[InvalidClientMetadata | InvalidRedirectUri] = InvalidClientMetadata,
) -> list[str]:
    value = said.get(member)
    if value is None:
        return default
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise refusal(f"{member} is no list of texts.")
    return value


def _ascii(text: str) -> str:
    """Return a sentence in the characters of an error_description (RFC 6749 §5.2)."""
    plain = text.replace("…", "...").replace("§", "section ").replace('"', "'").replace("\\", "/")
    return plain.encode("ascii", "replace").decode()
