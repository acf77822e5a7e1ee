"""Settings of applications that no member of staff has made: dynamic registration, and client ID metadata documents."""

import re
from collections.abc import Iterable
from typing import Final

from django.core.exceptions import ImproperlyConfigured

from ironauth.config import addresses
from ironauth.config.environment import Limit
from ironauth.config.table.setting import Section, Setting, SettingValues

ADDRESS: Final = "offices share an address; an application registers once a device"
#: Scopes that a stranger's application never has, whatever the setting says: everything of the account, and roles.
NEVER: Final = frozenset({"account", "roles"})


_SCOPE: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]{1,64}")  # RFC 6749 §3.3


def _scopes(words: Iterable[str], _: SettingValues) -> list[str]:
    """Return the scopes; those of the administration have a colon and an ending that no reader's scope needs here."""
    given = list(words)
    for word in given:
        if not _SCOPE.fullmatch(word):
            raise ImproperlyConfigured(
                "IRONAUTH_REGISTRATION_SCOPES has an item that is no scope: separate scopes by commas, e.g. "
                "openid,profile,notes:read."
            )
    bad = sorted(NEVER & set(given))
    if bad:
        raise ImproperlyConfigured(
            f"IRONAUTH_REGISTRATION_SCOPES names {', '.join(bad)}, which applications of strangers never get: leave it "
            "out, and give it to single applications in the admin."
        )
    if not given:
        raise ImproperlyConfigured("IRONAUTH_REGISTRATION_SCOPES is empty: name at least openid.")
    return given


def _hosts(name: str) -> object:
    def accept(words: Iterable[str], _: SettingValues) -> list[str]:
        given = list(words)
        for word in given:
            if not addresses.is_host(word.removeprefix(".")):
                raise ImproperlyConfigured(
                    f"{name} has an item that is no host name in lower case: write it like agent.example.com, or "
                    ".example.com for all below it."
                )
        return given

    return accept


STRANGERS = Section(
    "applications that register themselves",
    Setting(
        "IRONAUTH_REGISTRATION",
        "Who may register an application at /oauth/register (RFC 7591): nobody, those with a token that staff "
        "made, or anybody. Such an application is shown to people as unverified.",
        default="closed",
        choices=("closed", "token", "open"),
    ),
    Setting(
        "IRONAUTH_REGISTRATION_WITHOUT_PKCE",
        "Whether an application that registers itself and keeps a secret or a key may do without PKCE, as the profile "
        "oidc has it: older OpenID Connect libraries cannot send it.",
        default=False,
    ),
    Setting(
        "IRONAUTH_CLIENT_DOCUMENTS",
        "Whether an application may name itself by the https:// address of a document that describes it (client ID "
        "metadata documents). This server then fetches that document.",
        default=False,
    ),
    Setting(
        "IRONAUTH_CLIENT_DOCUMENT_HOSTS",
        "Hosts whose documents are accepted, e.g. agent.example.com, or .example.com for all below it (default: any).",
        default=(),
        example="agent.example.com",
        accept=_hosts("IRONAUTH_CLIENT_DOCUMENT_HOSTS"),  # type: ignore[arg-type]  # see _hosts
        refused="an item that is no host name in lower case",
    ),
    Setting(
        "IRONAUTH_CLIENT_DOCUMENT_BLOCKED_HOSTS",
        "Hosts whose documents are refused, written alike (default: none).",
        default=(),
        example="bad.example.com",
        accept=_hosts("IRONAUTH_CLIENT_DOCUMENT_BLOCKED_HOSTS"),  # type: ignore[arg-type]  # see _hosts
        refused="an item that is no host name in lower case",
    ),
    Setting(
        "IRONAUTH_CLIENT_DOCUMENT_NETWORKS",
        "Networks that are not public and that documents, keys, requests and logos of applications are fetched from "
        "all the same, and where applications of strangers hear of sign-outs, verified or not, e.g. 10.0.0.0/8 "
        "(default: none). A host name is resolved once, and judged.",
        default=(),
        example="10.0.0.0/8",
        accept=lambda value, _: addresses.private_networks(value, "IRONAUTH_CLIENT_DOCUMENT_NETWORKS"),
        refused="an item that is no address, or a network wider than 10.0.0.0/8 or fc00::/7",
    ),
    Setting(
        "IRONAUTH_REQUEST_URIS",
        "Whether requests are fetched from addresses that an application has registered (request_uris). Everybody who "
        "opens such a link has this server call that address; applications push their requests otherwise (RFC 9126).",
        default=False,
    ),
    Setting(
        "IRONAUTH_REGISTRATION_SCOPES",
        "Scopes that applications of strangers may ask for; never roles, account, or scopes of the admin API.",
        default=("openid", "profile", "email", "offline_access"),
        accept=_scopes,
        refused="roles or account, an item that is no scope, or none at all",
    ),
    Setting(
        "IRONAUTH_REGISTRATION_MOST",
        "Unverified applications of each kind (registered, by document) that are kept at once, {least} to {most}; "
        "beyond that, new ones are refused.",
        default=5_000,
        limit=Limit(1, 1_000_000, "applications", "each is a row of one or two KiB"),
    ),
    Setting(
        "IRONAUTH_REGISTRATION_UNUSED_DAYS",
        "An unverified application that nobody has used for this long is deleted, {least} to {most} days; one that "
        "nobody has ever allowed anything, after a day.",
        default=30,
        limit=Limit(1, 3_650, "days", "people come back after holidays"),
    ),
    Setting(
        "IRONAUTH_THROTTLE_REGISTRATIONS",
        "Registrations, and documents fetched, for one client address in any hour, {least} to {most}.",
        default=20,
        limit=Limit(1, 1_000_000, "in an hour", ADDRESS),
    ),
    Setting(
        "IRONAUTH_THROTTLE_ALL_REGISTRATIONS",
        "Registrations, and documents fetched, for all addresses together in any hour, {least} to {most}.",
        default=1_000,
        limit=Limit(1, 1_000_000, "in an hour", "a flood from many networks ends here"),
    ),
)
