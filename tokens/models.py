"""The tables of this application, where Django looks for them. Each is defined in its room."""

from tokens.clients.dynamic.models import Registration, RegistrationToken
from tokens.clients.fetched.models import ClientLogo
from tokens.clients.models import EndingClient, OAuthClient, OAuthClientSecret
from tokens.details.models import DetailType
from tokens.keys.models import SigningKey
from tokens.keys.pairwise import PairwiseSalt
from tokens.oauth.models import AuthorizationCode, Consent, DeviceGrant, LogoutNotice, PushedRequest
from tokens.resources.models import ApiResource
from tokens.sessions.models import EverybodysEnd, KnownDevice, Session
from tokens.upstream.models import UpstreamSession

__all__ = [
    "ApiResource",
    "AuthorizationCode",
    "ClientLogo",
    "Consent",
    "DetailType",
    "DeviceGrant",
    "EndingClient",
    "EverybodysEnd",
    "KnownDevice",
    "LogoutNotice",
    "OAuthClient",
    "OAuthClientSecret",
    "PairwiseSalt",
    "PushedRequest",
    "Registration",
    "RegistrationToken",
    "Session",
    "SigningKey",
    "UpstreamSession",
]
