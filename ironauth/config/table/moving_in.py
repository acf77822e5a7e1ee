"""Settings of lazy migration: people who are asked for at the old system when they first sign in here."""

from ironauth.config import addresses, lazy_migration
from ironauth.config.environment import Limit
from ironauth.config.table.setting import Section, Setting

KIND = "IRONAUTH_LAZY_MIGRATION"
NEEDED = (f"{KIND}_URL", f"{KIND}_UNTIL", f"{KIND}_CLIENT_ID")

MOVING_IN = Section(
    "moving in",
    Setting(
        KIND,
        "Which system is asked, once, for somebody without an account here, with the password that was typed: off, "
        "endpoint (one of your own), keycloak, auth0 or cognito. While it is on, a refused sign-in takes seconds, so "
        "that nobody can tell who has an account.",
        default="off",
        choices=lazy_migration.KINDS,
        accept=lambda value, given: lazy_migration.complete(value, KIND, {name: given[name] for name in NEEDED}),
        refused="a system without its URL, its end date, or, but for endpoint, a client",
    ),
    Setting(
        f"{KIND}_URL",
        "Where it is: the endpoint, the realm's issuer (https://id.example.com/realms/shop), the Auth0 tenant "
        "(https://shop.eu.auth0.com) or Cognito's region (https://cognito-idp.eu-west-1.amazonaws.com). Passwords go "
        "there and nowhere else: https; http on loopback only.",
        default="",
        example="https://id.example.com/realms/shop",
        accept=lambda value, _: lazy_migration.url(value, f"{KIND}_URL"),
        refused="no https:// address without trailing slash and query",
    ),
    Setting(
        f"{KIND}_UNTIL",
        "The last day (UTC, e.g. 2027-03-31) on which the old system is asked. Until then the addresses of accounts "
        "deleted here are kept as MACs, so that their people do not come back from there.",
        default="",
        example="2027-03-31",
        accept=lambda value, _: lazy_migration.until(value, f"{KIND}_UNTIL"),
        type="datetime | None",
        refused="no date of the form 2027-03-31",
    ),
    Setting(
        f"{KIND}_CLIENT_ID",
        "The client that IronAuth is there, which may use the password grant (keycloak, auth0) or USER_PASSWORD_AUTH "
        "(cognito).",
        default="",
        example="ironauth",
    ),
    Setting(
        f"{KIND}_SECRET",
        "The secret of that client, empty for one without; of an endpoint the bearer token that it wants to see.",
        default="",
        secret=True,
    ),
    Setting(
        f"{KIND}_REALM",
        "With auth0: the connection whose people move (default: the tenant's default directory).",
        default="",
        example="Username-Password-Authentication",
    ),
    Setting(
        f"{KIND}_TRUSTS_VERIFIED",
        "0 or 1: an address counts as verified here when the old system says that it is. With 0 people prove it here.",
        default=False,
    ),
    Setting(
        f"{KIND}_TIMEOUT_S",
        "Longest wait for the old system, {least} to {most} seconds. While it is on, every refused sign-in leaves "
        "after a whole number of half a second more than this.",
        default=2.5,
        limit=Limit(0.5, 10, "seconds", "a shorter wait gives up on a slow hash; everybody who mistypes waits as long"),
    ),
    Setting(
        f"{KIND}_NETWORKS",
        "Networks that are not public and in which the old system may be, e.g. 10.0.0.0/8 (default: none; this machine "
        "with DEBUG=1). A host name is resolved once, and judged.",
        kind="words",
        default=lambda given: ["127.0.0.0/8", "::1"] if given["DEBUG"] else [],
        accept=lambda value, _: addresses.private_networks(value, f"{KIND}_NETWORKS"),
        refused="an item that is no address, or a network wider than 10.0.0.0/8 or fc00::/7",
    ),
)
