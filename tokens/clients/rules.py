"""What a client may be: every rule over its fields, wherever they are typed (the admin, a command, the API).

A rule that another one makes pointless is not reported: each problem is something to correct. Some clients are a
superuser's alone to make, to change and to give a secret to: those that act for people without asking them, on people's
accounts, or on everybody's. With such a client's secret, or its addresses, a caller could act as people with rights
that the caller does not hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import TextChoices

from accounts import names
from ironauth.config.addresses import is_host
from ironauth.config.environment import Limit
from ironauth.config.table import LIMITS
from ironauth.infrastructure.core.errors import FieldError
from ironauth.infrastructure.outbound.public_addresses import may_be_called
from tokens.clients import keys as client_keys
from tokens.clients import profiles, redirect_uris
from tokens.clients.certificates import rules as certificates
from tokens.clients.fetched import addresses
from tokens.clients.fetched import rules as fetched
from tokens.clients.models import NAME_CHARACTERS, SCOPE_CHARACTERS, OAuthClient, default_scopes
from tokens.details import queries as detail_types
from tokens.keys.models import SigningKey
from tokens.protocol import GrantType, Scope, problem_of_scopes, scope_text
from tokens.resources import queries as resources

MAX_URIS: Final = 50  # of one client in one list: an application has a handful of addresses
#: Grants by which a person lets the client in; the others have nobody behind them, or somebody let in before.
PEOPLES_GRANTS: Final = frozenset({GrantType.AUTHORIZATION_CODE, GrantType.DEVICE_CODE})
#: Grants of clients that can prove who they are (RFC 6749 §4.4, RFC 8693 §2.1).
CONFIDENTIAL_GRANTS: Final = frozenset({GrantType.CLIENT_CREDENTIALS, GrantType.TOKEN_EXCHANGE})
#: Scopes that mean something of a person.
PERSONAL_SCOPES: Final = frozenset(Scope)

#: Ways to prove who one is by a registered key.
_BY_KEYS: Final = frozenset({OAuthClient.AuthMethod.PRIVATE_KEY_JWT, OAuthClient.AuthMethod.SELF_SIGNED_TLS})

NOT_YOURS: Final = (
    "Only a superuser may do this: with it the application acts for everybody who signs in, superusers too. Ask one."
)
NOT_YOUR_MACHINE: Final = "Only a superuser may let an application administer. Ask one."

_CHOICES: Final[Mapping[str, type[TextChoices]]] = {
    "profile": OAuthClient.Profile,
    "auth_method": OAuthClient.AuthMethod,
    "dpop": OAuthClient.Policy,
    "subject_type": OAuthClient.Subject,
    "id_token_alg": OAuthClient.IdTokenAlg,
    "access_token_alg": OAuthClient.IdTokenAlg,
    "request_object_signing_alg": OAuthClient.RequestAlg,
    "authorization_signed_response_alg": OAuthClient.IdTokenAlg,
    "userinfo_signed_response_alg": OAuthClient.UserinfoAlg,
}


def problems_of(client: OAuthClient) -> list[FieldError]:
    """Return everything that is wrong with a client's fields, each with its remedy; nothing for a good one.

    No query; one for each algorithm other than Ed25519 that signs the client's tokens and answers, and for each list of
    APIs.
    """
    found = [
        *names.problems_of(client.name, most=NAME_CHARACTERS, noun="application"),
        *_chosen(client),
        *_grants(client),
        *_scopes(client),
        *_addresses(client, "redirect_uris"),
        *_addresses(client, "post_logout_redirect_uris"),
        *_backchannel(client),
        *_initiates(client),
        *_proof(client),
        *certificates.problems_of(client),
        *fetched.problems_of(client),
        *_request_objects(client),
        *_apis(client),
        *_details(client),
        *_subject(client),
        *_signed(client),
        *_lifetimes(client),
    ]
    spoken = {one.field for one in found}
    return found + [one for one in profiles.missed(client, client.profile) if one.field not in spoken]


def reserved(client: OAuthClient) -> Iterable[FieldError]:
    """Yield what of a client only a superuser may set, by field; nothing of a client that anybody may make.

    Args:
        client: The client as it would be.
    """
    if client.trusted:
        yield _problem("trusted", "superuser_only", NOT_YOURS)
    if Scope.ACCOUNT in client.scopes:
        yield _problem("scopes", "superuser_only", NOT_YOURS)
    if client.administers:
        yield _problem("administers", "superuser_only", NOT_YOUR_MACHINE)


def is_superusers(client: OAuthClient) -> bool:
    """Return whether a client is a superuser's alone to change and to give another secret to."""
    return any(True for _ in reserved(client))


def scopes_for(grants: Iterable[str]) -> list[str]:
    """Return the scopes of a new client with these grants unless somebody says which."""
    given = frozenset(grants)
    if not given & PEOPLES_GRANTS:
        return []
    refreshes = GrantType.REFRESH_TOKEN in given
    return [scope for scope in default_scopes() if refreshes or scope != Scope.OFFLINE_ACCESS]


def _problem(field: str, code: str, message: str) -> FieldError:
    return FieldError(field=field, code=code, message=message)


def _chosen(client: OAuthClient) -> Iterable[FieldError]:
    """Find what is none of the choices of its field; forms and commands offer no other."""
    for name, choices in _CHOICES.items():
        if getattr(client, name) not in choices.values:
            yield _problem(name, "choice", f"This is none of the choices: write {', '.join(choices.values)}.")


def _grants(client: OAuthClient) -> Iterable[FieldError]:
    given, known = client.grants, {grant.value for grant in GrantType}
    if not given or len(set(given)) != len(given) or set(given) - known:
        yield _problem("grants", "grants", f"Choose at least one grant, each once: {', '.join(sorted(known))}.")
        return
    if _is_public(client) and set(given) & CONFIDENTIAL_GRANTS:
        yield _problem(
            "grants",
            "confidential_only",
            "Anybody can claim to be a public client: leave out client_credentials and token-exchange, or give the "
            "client a secret or a key.",
        )
    if GrantType.REFRESH_TOKEN in given and not set(given) & PEOPLES_GRANTS:
        yield _problem(
            "grants",
            "nothing_to_refresh",
            "No grant here gives a refresh token: add authorization_code or device_code, or leave out refresh_token.",
        )


def _scopes(client: OAuthClient) -> Iterable[FieldError]:
    given = client.scopes
    problem = problem_of_scopes(given)
    if problem is not None:
        yield _problem("scopes", "scopes", problem)
        return
    if len(scope_text(set(given))) > SCOPE_CHARACTERS:
        yield _problem(
            "scopes", "too_many", f"All scopes together have at most {SCOPE_CHARACTERS} characters: drop some."
        )
    if not client.grants:
        return
    if set(given) & PERSONAL_SCOPES and not set(client.grants) & (PEOPLES_GRANTS | {GrantType.TOKEN_EXCHANGE}):
        yield _problem(
            "scopes",
            "nobody_there",
            f"Nobody signs in with these grants: leave out {', '.join(sorted(set(given) & PERSONAL_SCOPES))}, or add "
            "authorization_code or device_code.",
        )
    elif Scope.OFFLINE_ACCESS in given and GrantType.REFRESH_TOKEN not in client.grants:
        yield _problem(
            "scopes", "no_refresh", "offline_access means a refresh token: add the grant refresh_token or leave it out."
        )


def _addresses(client: OAuthClient, field: str) -> Iterable[FieldError]:
    """Find what is wrong with a list of addresses, line by line."""
    uris: Sequence[str] = getattr(client, field)
    if client.grants and field == "redirect_uris" and bool(uris) != (GrantType.AUTHORIZATION_CODE in client.grants):
        yield _problem(
            field,
            "needless" if uris else "required",
            "These are for the grant authorization_code: add it or leave them out."
            if uris
            else "The grant authorization_code needs an address to answer at: add one.",
        )
    if len(uris) > MAX_URIS:
        yield _problem(field, "too_many", f"At most {MAX_URIS} addresses: leave out those not in use.")
        return
    for at, uri in enumerate(uris, start=1):
        problem = redirect_uris.problem_of(uri)
        if problem is None and uri in uris[: at - 1]:
            problem = "This address is there twice: leave one out."
        if problem is None and redirect_uris.is_private_use(uri) and not _is_public(client):
            problem = (
                "An application on people's devices can keep no secret (RFC 8252 §8.5): make it a public client, or "
                "use an https:// address."
            )
        if problem is not None:
            yield _problem(field, "address", f"{uri[:80]!r} (no. {at}): {problem}")


def _backchannel(client: OAuthClient) -> Iterable[FieldError]:
    """Find what is wrong with the address that this server itself calls; plain http in development, to loopback."""
    uri, field = client.backchannel_logout_uri, "backchannel_logout_uri"
    if not uri:
        return
    problem = redirect_uris.problem_of(uri)
    if problem is None and not uri.startswith("https://") and not (settings.DEBUG and uri.startswith("http://")):
        problem = "This server calls it with a signed token: write https://."
    networks = addresses.networks_of_logout(by_staff=client.by_staff)
    if problem is None and not may_be_called(urlsplit(uri).hostname or "", networks):
        setting = "IRONAUTH_LOGOUT_NETWORKS" if client.by_staff else "IRONAUTH_CLIENT_DOCUMENT_NETWORKS"
        problem = f"The host is in a private network: choose a public one, or name it in {setting}."
    if problem is not None:
        yield _problem(field, "address", problem)


def _initiates(client: OAuthClient) -> Iterable[FieldError]:
    """Find what is wrong with the address where the client begins a sign-in (OpenID Connect Core §4)."""
    uri, field = client.initiate_login_uri, "initiate_login_uri"
    if not uri:
        return
    problem = redirect_uris.problem_of(uri)
    if problem is None and redirect_uris.is_private_use(uri):
        problem = "People open it in a browser: write https://."
    if problem is not None:
        yield _problem(field, "address", problem)


def _proof(client: OAuthClient) -> Iterable[FieldError]:
    """Find what does not go with how the client proves who it is."""
    signs = client.auth_method in _BY_KEYS
    if signs and client.jwks is None and not fetched.has_keys(client):
        yield _problem("jwks", "required", f"{client.auth_method} needs the client's public keys: add a JWK set.")
    elif client.jwks is not None and not signs and not client.request_object_signing_alg:
        yield _problem(
            "jwks",
            "needless",
            "Keys are for private_key_jwt, certificates of them and signed requests: leave them out.",
        )
    elif client.jwks is not None and (problem := client_keys.problem_of(client.jwks)):
        yield _problem("jwks", "keys", problem)
    if _is_public(client) and client.resource_server:
        yield _problem(
            "resource_server",
            "public",
            "Anybody can claim to be a public client: give the API a secret or keys, or leave this out.",
        )
    if _is_public(client) and client.administers:
        yield _problem(
            "administers",
            "public",
            "Anybody can claim to be a public client: give the application a secret or keys, or leave this out.",
        )
    if _is_public(client) and not client.require_pkce:
        yield _problem(
            "require_pkce", "required", "A public client has nothing but PKCE (RFC 9700 §2.1.1): leave it required."
        )


def _request_objects(client: OAuthClient) -> Iterable[FieldError]:
    """Find an algorithm for request objects that none of the client's keys can have signed by."""
    alg, field = client.request_object_signing_alg, "request_object_signing_alg"
    if alg in ("", OAuthClient.RequestAlg.UNSIGNED) or alg not in OAuthClient.RequestAlg.values or client.jwks_uri:
        return
    if client.jwks is None:
        yield _problem("jwks", "required", "Signed requests need the client's public keys: add a JWK set.")
    elif not client_keys.problem_of(client.jwks) and not client_keys.can_sign(client.jwks, alg):
        yield _problem(field, "no_key", f"None of the client's keys signs by {alg}: add one, or choose its algorithm.")


def _apis(client: OAuthClient) -> Iterable[FieldError]:
    """Find identifiers that are no registered API's. No query for a client that names none."""
    for field in ("resources", "serves"):
        given = getattr(client, field)
        if len(given) > MAX_URIS or len(set(given)) != len(given):
            yield _problem(field, "too_many", f"At most {MAX_URIS} APIs, each once: correct the list.")
        elif given and (unknown := resources.unregistered(given)):
            yield _problem(
                field,
                "unregistered",
                f"No API is registered as {unknown[0][:80]!r}: register it first, or leave it out.",
            )
    if client.serves and not client.resource_server:
        yield _problem("serves", "needless", "These are for an API that asks about tokens: make it a resource server.")


def _details(client: OAuthClient) -> Iterable[FieldError]:
    """Find types of authorization details that are not registered. No query for a client that names none."""
    given, field = client.authorization_details_types, "authorization_details_types"
    if len(given) > MAX_URIS or len(set(given)) != len(given):
        yield _problem(field, "too_many", f"At most {MAX_URIS} types, each once: correct the list.")
    elif given and (unknown := detail_types.unregistered(given)):
        yield _problem(
            field, "unregistered", f"No type is registered as {unknown[0][:80]!r}: register it first, or leave it out."
        )


def _subject(client: OAuthClient) -> Iterable[FieldError]:
    """Find a pairwise client whose sector nobody can tell (OpenID Connect Core §8.1), or a sector without use.

    And one that may call this server's own API, which shows people their public id.
    """
    pairwise = client.subject_type == OAuthClient.Subject.PAIRWISE
    if pairwise and Scope.ACCOUNT in client.scopes:
        yield _problem(
            "scopes",
            "public_id",
            "The scope account shows a client people's public id (/api/v1/access/me), which pairwise subjects keep "
            "from it: leave out account, or choose public subjects.",
        )
    if client.sector and not pairwise:
        yield _problem("sector", "needless", "A sector is for pairwise subjects: choose these, or leave it out.")
    elif client.sector and not is_host(client.sector):
        yield _problem("sector", "host", "A sector is a host name in lower case: write it like example.com.")
    elif pairwise and not client.sector:
        hosts = {urlsplit(uri).hostname for uri in client.redirect_uris if redirect_uris.problem_of(uri) is None}
        if len(hosts) != 1 or None in hosts:
            yield _problem(
                "sector", "required", "The redirect addresses do not name one host: write the sector like example.com."
            )


def _signed(client: OAuthClient) -> Iterable[FieldError]:
    """Find an algorithm that nothing here signs with. Ed25519 every installation has: its own sessions need it.

    A client without the scope openid has no ID tokens.
    """
    fields = ["access_token_alg", "authorization_signed_response_alg", "userinfo_signed_response_alg"]
    if isinstance(client.scopes, list) and Scope.OPENID in client.scopes:
        fields.append("id_token_alg")
    for field in fields:
        alg = getattr(client, field)
        if alg not in OAuthClient.IdTokenAlg.values or alg == OAuthClient.IdTokenAlg.ED25519:  # empty: signs nothing
            continue
        if not SigningKey.objects.filter(family=alg, state=SigningKey.State.ACTIVE).exists():
            yield _problem(
                field,
                "no_key",
                f"There is no key for {alg}: run `manage.py create_signing_key --alg {alg}` first, or choose ed25519.",
            )


def _lifetimes(client: OAuthClient) -> Iterable[FieldError]:
    """Find seconds outside what the settings of the same name may be.

    An access token lives no longer than the setting says: a key that has been replaced is kept for that long.
    """
    least = LIMITS["IRONAUTH_ACCESS_TOKEN_S"].least
    bounds = {
        "access_token_s": (least, settings.IRONAUTH_ACCESS_TOKEN_S, "IRONAUTH_ACCESS_TOKEN_S"),
        "session_idle_s": _bounds(LIMITS["IRONAUTH_SESSION_IDLE_S"]),
        "session_absolute_s": _bounds(LIMITS["IRONAUTH_SESSION_ABSOLUTE_S"]),
    }
    good = True
    for name, (low, high, source) in bounds.items():
        value = getattr(client, name)
        if value is not None and not low <= value <= high:
            good = False
            where = f" (the most is {source})" if source else ""
            yield _problem(
                name, "range", f"Write {low:,} to {high:,} seconds{where}, or nothing for the setting's own."
            )
    idle = client.session_idle_s if client.session_idle_s is not None else settings.IRONAUTH_SESSION_IDLE_S
    absolute = client.session_absolute_s
    absolute = settings.IRONAUTH_SESSION_ABSOLUTE_S if absolute is None else absolute
    if good and idle > absolute and client.session_idle_s is not None:
        yield _problem(
            "session_idle_s", "order", f"Unused, a session cannot outlast its end after {absolute:,} s: write less."
        )


def _bounds(limit: Limit) -> tuple[float, float, str]:
    return limit.least, limit.most, ""


def _is_public(client: OAuthClient) -> bool:
    return client.auth_method == OAuthClient.AuthMethod.NONE
