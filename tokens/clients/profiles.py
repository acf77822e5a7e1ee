"""Profiles of clients: the sets of rules that an application can keep. One place says what each demands.

A rule that holds for everybody is in ``clients.rules``. What a profile adds while requests are answered is read from
``Profile`` where an assertion, a proof or a refresh token is judged.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from ironauth.infrastructure.core.errors import FieldError
from tokens.clients.keys import can_sign, problem_of
from tokens.clients.models import OAuthClient
from tokens.protocol import PROOF_ALGORITHMS, GrantType

#: Seconds for which the refresh token before the newest one still works for a client whose tokens are bound to a key.
#: FAPI 2.0 §5.3.2.1: a client that never got the answer asks again, and a thief has not the key.
FAPI2_GRACE_S: Final = 60
_AUTH, _DPOP, _ALG = OAuthClient.AuthMethod, OAuthClient.Policy, OAuthClient.IdTokenAlg
_REQUEST: Final = OAuthClient.RequestAlg


class Demand(NamedTuple):
    """One rule of a profile.

    Attributes:
        field: The field of the client that it is about.
        holds: Whether a client keeps it.
        words: What to do where it does not.
    """

    field: str
    holds: Callable[[OAuthClient], bool]
    words: str


class Profile(NamedTuple):
    """What a client of the profile begins with, what it must be, and how its requests are judged.

    Attributes:
        words: What it is for.
        initial: Fields of a new client; for a field that is not named, the kind of application says.
        demands: Its rules.
        signing: Algorithms that its assertions and proofs may be signed with.
        issuer_alone: Whether the audience of an assertion has to be the issuer, as one text (FAPI 2.0 §5.3.2.1).
        grace_s: Seconds for which the refresh token before the newest one works, at least.
        default_scope: Whether a request without scope asks for all that the client may have (RFC 6749 §3.3).
        signed_requests: Whether authorization requests have to be signed (``require_signed_request_object``).
        dated_requests: Whether a request object has to say from when it is good (FAPI 2.0 Message Signing §5.3.1).
    """

    words: str
    initial: Mapping[str, Any]
    demands: tuple[Demand, ...]
    signing: frozenset[str] = frozenset(PROOF_ALGORITHMS)
    issuer_alone: bool = False
    grace_s: int = 0
    default_scope: bool = False
    signed_requests: bool = False
    dated_requests: bool = False


def _is_public(client: OAuthClient) -> bool:
    return client.auth_method == _AUTH.NONE


def _only_https(client: OAuthClient) -> bool:
    return all(uri.startswith("https://") for uri in client.redirect_uris)


def _has_key_for(algorithms: frozenset[str]) -> Callable[[OAuthClient], bool]:
    """Return whether a client has a key that can sign by one of these; other rules speak of no set, or a bad one."""

    def has(client: OAuthClient) -> bool:
        jwks = client.jwks
        return jwks is None or problem_of(jwks) is not None or any(can_sign(jwks, alg) for alg in algorithms)

    return has


#: What an agent can do: let people sign in, and stay signed in; nothing without a person.
AGENT_GRANTS: Final = frozenset({GrantType.AUTHORIZATION_CODE.value, GrantType.REFRESH_TOKEN.value})
_FAPI2_SIGNING: Final = frozenset(PROOF_ALGORITHMS) - {"RS256"}
_FAPI2_INITIAL: Final[Mapping[str, Any]] = {
    "auth_method": _AUTH.PRIVATE_KEY_JWT.value,
    "require_pkce": True,
    "require_par": True,
    "dpop": _DPOP.REQUIRED.value,
    "id_token_alg": _ALG.ED25519.value,
    "access_token_alg": _ALG.ED25519.value,
}
_FAPI2_DEMANDS: Final = (
    Demand(
        "auth_method",
        lambda client: client.auth_method == _AUTH.PRIVATE_KEY_JWT or client.shows_certificate,
        "FAPI 2.0 clients prove who they are by an assertion or a certificate: choose private_key_jwt.",
    ),
    Demand(
        "jwks",
        _has_key_for(_FAPI2_SIGNING),
        "FAPI 2.0 assertions are signed by PS256, ES256 or EdDSA: add a key for one of them.",
    ),
    Demand("require_pkce", lambda client: client.require_pkce, "FAPI 2.0 demands PKCE: require it."),
    Demand("require_par", lambda client: client.require_par, "FAPI 2.0 requests are pushed: require PAR."),
    Demand(
        "dpop",
        lambda client: client.dpop == _DPOP.REQUIRED or client.certificate_bound,
        "FAPI 2.0 tokens are bound to a key: make DPoP required, or bind them to the certificate.",
    ),
    Demand("redirect_uris", _only_https, "FAPI 2.0 answers to https:// addresses alone: leave the others out."),
    Demand(
        "id_token_alg",
        lambda client: client.id_token_alg != _ALG.RS256,
        "FAPI 2.0 signs nothing by RS256: choose ES256 or ed25519.",
    ),
    Demand(
        "access_token_alg",
        lambda client: client.access_token_alg != _ALG.RS256,
        "FAPI 2.0 signs nothing by RS256: choose ES256 or ed25519.",
    ),
    Demand(
        "request_object_signing_alg",
        lambda client: client.request_object_signing_alg not in (_REQUEST.RS256, _REQUEST.UNSIGNED),
        "FAPI 2.0 requests are signed, and not by RS256: choose PS256, ES256 or EdDSA.",
    ),
    Demand(
        "userinfo_signed_response_alg",
        lambda client: client.userinfo_signed_response_alg != OAuthClient.UserinfoAlg.RS256,
        "FAPI 2.0 signs nothing by RS256: choose ES256 or ed25519.",
    ),
    Demand(
        "authorization_signed_response_alg",
        lambda client: client.authorization_signed_response_alg != _ALG.RS256,
        "FAPI 2.0 signs nothing by RS256: choose ES256 or ed25519.",
    ),
)
#: By the value of ``OAuthClient.profile``.
PROFILES: Final[Mapping[str, Profile]] = {
    OAuthClient.Profile.OAUTH21: Profile(
        "New applications: PKCE always (OAuth 2.1).",
        {"require_pkce": True},
        (
            Demand(
                "require_pkce",
                lambda client: client.require_pkce,
                "Only the profile oidc does without PKCE: require it, or choose that profile.",
            ),
        ),
    ),
    OAuthClient.Profile.OIDC: Profile(
        "Older OpenID Connect libraries that cannot send PKCE; the application keeps a secret or a key.",
        {"require_pkce": False},
        (
            Demand(
                "profile",
                lambda client: not _is_public(client),
                "The profile oidc is for applications that keep a secret or a key: choose oauth2.1 or native.",
            ),
        ),
    ),
    OAuthClient.Profile.NATIVE: Profile(
        "Applications on people's devices (RFC 8252): they keep no secret.",
        {"auth_method": _AUTH.NONE.value, "require_pkce": True},
        (
            Demand("auth_method", _is_public, "An application on people's devices keeps no secret: choose none."),
            Demand("require_pkce", lambda client: client.require_pkce, "The profile native demands PKCE: require it."),
        ),
    ),
    OAuthClient.Profile.AGENT: Profile(
        "Agents and other applications that register themselves (Model Context Protocol): people are always asked.",
        {"auth_method": _AUTH.NONE.value, "require_pkce": True, "trusted": False},
        (
            Demand("require_pkce", lambda client: client.require_pkce, "The profile agent demands PKCE: require it."),
            Demand(
                "grants",
                lambda client: set(client.grants) <= AGENT_GRANTS,
                "An agent acts for a person who is there: leave out all but authorization_code and refresh_token.",
            ),
            Demand("trusted", lambda client: not client.trusted, "People are asked about an agent: leave trusted out."),
            Demand(
                "resource_server",
                lambda client: not client.resource_server,
                "An agent asks about no token but its own: leave resource_server out.",
            ),
            Demand(
                "administers", lambda client: not client.administers, "An agent does not administer: leave this out."
            ),
        ),
        default_scope=True,
    ),
    OAuthClient.Profile.FAPI2: Profile(
        "Banks, health, government: the FAPI 2.0 Security Profile.",
        _FAPI2_INITIAL,
        _FAPI2_DEMANDS,
        signing=_FAPI2_SIGNING,
        issuer_alone=True,
        grace_s=FAPI2_GRACE_S,
        dated_requests=True,
    ),
    OAuthClient.Profile.MESSAGE_SIGNING: Profile(
        "The same with signed requests, which nobody can deny: FAPI 2.0 Message Signing.",
        {**_FAPI2_INITIAL, "request_object_signing_alg": _REQUEST.ES256.value},
        (
            *_FAPI2_DEMANDS,
            Demand(
                "request_object_signing_alg",
                lambda client: bool(client.request_object_signing_alg),
                "Requests of this profile are signed: choose PS256, ES256 or EdDSA.",
            ),
        ),
        signing=_FAPI2_SIGNING,
        issuer_alone=True,
        grace_s=FAPI2_GRACE_S,
        signed_requests=True,
        dated_requests=True,
    ),
}
#: What may sign the assertions and proofs of every client, whatever its profile.
COMMON_SIGNING: Final = frozenset.intersection(*(profile.signing for profile in PROFILES.values()))


def initial(profile: str) -> Mapping[str, Any]:
    """Return the fields that a new client of a profile begins with; none for an unknown one, which the rules refuse."""
    return {"profile": profile, **(PROFILES[profile].initial if profile in PROFILES else {})}


def missed(client: OAuthClient, profile: str) -> Iterable[FieldError]:
    """Yield the rules of a profile that a client does not keep, by field.

    Args:
        client: The client as it is, or as it would be.
        profile: The name of the profile; of an unknown one there is nothing to keep.
    """
    for demand in PROFILES[profile].demands if profile in PROFILES else ():
        if not demand.holds(client):
            yield FieldError(field=demand.field, code="profile", message=demand.words)
