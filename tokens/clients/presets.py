"""Kinds of applications: what a new client begins with, so that a name and an address are enough."""

from typing import Any, Final, NamedTuple

from tokens.clients import profiles
from tokens.clients.models import OAuthClient
from tokens.protocol import GrantType, Scope


class Preset(NamedTuple):
    """A kind of application. ``initial``: values of fields; ``redirects``: whether people come back to it."""

    words: str
    initial: dict[str, Any]
    redirects: bool = False


#: What signs the ID tokens of a new client: every library verifies it (OpenID Connect Core §15.1), some nothing else.
ID_TOKEN_ALG: Final = OAuthClient.IdTokenAlg.RS256.value
_PEOPLE: Final = [Scope.OPENID.value, Scope.PROFILE.value, Scope.EMAIL.value]
_LASTING: Final = [GrantType.AUTHORIZATION_CODE.value, GrantType.REFRESH_TOKEN.value]
_SECRET, _PUBLIC = OAuthClient.AuthMethod.SECRET.value, OAuthClient.AuthMethod.NONE.value


def _preset(
    words: str,
    auth_method: str,
    grants: list[str],
    scopes: list[str],
    *,
    profile: str = OAuthClient.Profile.OAUTH21.value,
    **more: Any,
) -> Preset:
    redirects = GrantType.AUTHORIZATION_CODE.value in grants
    initial: dict[str, Any] = {
        "auth_method": auth_method,
        "grants": grants,
        "scopes": scopes,
        "id_token_alg": ID_TOKEN_ALG,
        **profiles.initial(profile),
        **more,
    }
    return Preset(words, initial, redirects)


_PROFILE: Final = OAuthClient.Profile
PRESETS: Final = {
    "web": _preset("Web app", _SECRET, _LASTING, [*_PEOPLE, Scope.OFFLINE_ACCESS.value]),
    "spa": _preset("Single-page app", _PUBLIC, _LASTING, [*_PEOPLE, Scope.OFFLINE_ACCESS.value]),
    "native": _preset(
        "Native app",
        _PUBLIC,
        _LASTING,
        [*_PEOPLE, Scope.OFFLINE_ACCESS.value],
        profile=_PROFILE.NATIVE.value,
    ),
    "agent": _preset("Agent", _PUBLIC, _LASTING, [*_PEOPLE, Scope.OFFLINE_ACCESS.value], profile=_PROFILE.AGENT.value),
    "machine": _preset("Machine", _SECRET, [GrantType.CLIENT_CREDENTIALS.value], []),
    "resource": _preset("Resource server", _SECRET, [GrantType.CLIENT_CREDENTIALS.value], [], resource_server=True),
    "device": _preset(
        "Device",
        _PUBLIC,
        [GrantType.DEVICE_CODE.value, GrantType.REFRESH_TOKEN.value],
        [*_PEOPLE, Scope.OFFLINE_ACCESS.value],
    ),
    "oidc": _preset(
        "Older OpenID Connect library",
        _SECRET,
        _LASTING,
        [*_PEOPLE, Scope.OFFLINE_ACCESS.value],
        profile=_PROFILE.OIDC.value,
    ),
    "fapi2": _preset(
        "FAPI 2.0 client", _SECRET, _LASTING, [*_PEOPLE, Scope.OFFLINE_ACCESS.value], profile=_PROFILE.FAPI2.value
    ),
    "fapi2-message-signing": _preset(
        "FAPI 2.0 client with signed messages",
        _SECRET,
        _LASTING,
        [*_PEOPLE, Scope.OFFLINE_ACCESS.value],
        profile=_PROFILE.MESSAGE_SIGNING.value,
    ),
}
