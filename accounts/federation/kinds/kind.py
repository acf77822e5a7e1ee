"""What a kind of provider is, and what every kind makes of its answer."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from accounts.federation.errors import UpstreamRefused
from accounts.federation.models import SUBJECT_CHARACTERS
from accounts.profile import FIELDS

#: Signatures of ID tokens: never HMAC, whose key the client has too, and not ``none``.
ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA", "Ed25519")
TENANT: Final = "{tenantid}"  # in the issuer of Entra's document for all tenants
_NEVER: Final = 253_402_300_800  # unix seconds; the year 10,000, which no date here can say
DISCOVERY: Final = "/.well-known/openid-configuration"


class UpstreamPerson(NamedTuple):
    """Who a provider says somebody is. What ``email_verified`` is worth, the operator decides."""

    issuer: str
    subject: str
    email: str = ""
    email_verified: bool = False
    name: str = ""
    #: What else the profile has of them (``accounts.profile.FIELDS``), as the provider says it.
    profile: Mapping[str, str] = {}
    #: The session there (OpenID Connect Back-Channel Logout 1.0 §2.1), "" where it has no name.
    sid: str = ""
    #: How somebody was authenticated there: the values of ``amr`` and ``acr``. What they are worth, the operator says.
    methods: frozenset[str] = frozenset()
    #: When that was (OpenID Connect Core §2), unix seconds; 0 where the provider does not say.
    auth_time: int = 0
    #: The provider's tokens, sealed (``accounts.federation.kept_tokens``), where they are kept.
    tokens: bytes | None = None


class Endpoints(NamedTuple):
    """Where a provider is asked. ``jwks_uri`` is empty for one without ID tokens.

    ``says_iss``: whether it names itself in its answer (RFC 9207); then an answer without is refused.
    ``tells_logout``: whether it says that it tells applications when somebody signs out there.
    """

    issuer: str
    authorization: str
    token: str
    jwks_uri: str = ""
    says_iss: bool = False
    auth_methods: tuple[str, ...] = ("client_secret_basic",)
    userinfo: str = ""
    tells_logout: bool = False


class ProviderKind:
    """An OpenID Connect provider that is known by its issuer; others say what differs."""

    name: ClassVar[str] = "oidc"
    label: ClassVar[str] = "OpenID Connect, by its issuer"
    #: Its issuer, where there is only one.
    issuer: ClassVar[str] = ""
    scope: ClassVar[str] = "openid email profile"
    #: Whether its verified addresses are worth the name, unless the operator says otherwise.
    verifies_email: ClassVar[bool] = False
    #: Whether userinfo is asked for an address that the ID token lacks.
    asks_userinfo: ClassVar[bool] = True
    #: Whether it can be asked to authenticate somebody anew (``prompt=login``, ``max_age``).
    asks_anew: ClassVar[bool] = True
    #: Whether the stored secret is a private key that makes a client secret for each request.
    signs_secret: ClassVar[bool] = False
    #: Parameters of the authorization request of its own.
    parameters: ClassVar[Mapping[str, str]] = {}
    #: Further ones where its tokens are kept: what has it give a refresh token.
    offline_parameters: ClassVar[Mapping[str, str]] = {}
    #: What stands between the scopes that it says.
    scope_separator: ClassVar[str] = " "
    #: Where it is asked, for a provider without discovery.
    endpoints: ClassVar[Endpoints | None] = None

    def is_issuer(self, claimed: str, configured: str, claims: Mapping[str, Any]) -> bool:
        """Tell whether an ID token's issuer is this provider."""
        return claimed == configured

    def told_elsewhere(self, configured: str, subject: str) -> tuple[str, str] | None:
        """Return issuer and subject, as a sign-in here would have them, of a person of another system.

        Args:
            configured: The issuer of the provider, as it is configured here.
            subject: Who the other system says it is at the provider.

        Returns:
            Both; None where a sign-in would name nobody so.
        """
        if not 0 < len(subject) <= SUBJECT_CHARACTERS or not subject.isprintable():
            return None
        return self.issuer or configured, subject

    def person(self, claims: Mapping[str, Any]) -> UpstreamPerson:
        """Return the person that verified claims describe.

        Raises:
            UpstreamRefused: The subject is missing or has a form that nobody may have.
        """
        return UpstreamPerson(
            issuer=str(claims["iss"]),
            subject=subject_of(claims, "sub"),
            email=_text(claims, "email"),
            email_verified=claims.get("email_verified") is True,
            name=_text(claims, "name"),
            profile={field: value for field in FIELDS if (value := _text(claims, field))},
            sid=_short(claims, "sid"),
            methods=_methods(claims),
            auth_time=_seconds(claims, "auth_time"),
        )


def subject_of(claims: Mapping[str, Any], name: str) -> str:
    """Return the claim that says who it is.

    Args:
        claims: Of an ID token, or of the provider's API.
        name: The claim that the kind of provider uses.

    Raises:
        UpstreamRefused: It is missing or has a form that nobody may have.
    """
    value = claims.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= SUBJECT_CHARACTERS or not value.isprintable():
        raise UpstreamRefused("subject")
    return value


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value if isinstance(value, str) else ""


def _short(claims: Mapping[str, Any], name: str) -> str:
    """Return a claim that a column of ours can hold; "" for any other."""
    value = _text(claims, name)
    return value if len(value) <= SUBJECT_CHARACTERS and value.isprintable() else ""


def _seconds(claims: Mapping[str, Any], name: str) -> int:
    """Return a time of the claims; 0 where there is none."""
    value = claims.get(name)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _NEVER else 0


def _methods(claims: Mapping[str, Any]) -> frozenset[str]:
    amr = claims.get("amr")
    values = [*(amr if isinstance(amr, list) else ()), claims.get("acr")]
    return frozenset(value for value in values if isinstance(value, str) and value)
