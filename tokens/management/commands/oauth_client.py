"""``manage.py oauth_client``: set clients up from scripts. JSON on standard output, messages on standard error."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts import names
from ironauth.infrastructure.core import strict_json
from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from tokens.clients import profiles
from tokens.clients import rules as client_rules
from tokens.clients import units as client_units
from tokens.clients.keys import MAX_FILE_BYTES
from tokens.clients.models import OAuthClient, default_grants
from tokens.clients.presets import ID_TOKEN_ALG
from tokens.clients.profiles import PROFILES
from tokens.clients.units import EXPIRE_OLD_S, MOST_EXPIRE_OLD_S, NoSecretError
from tokens.protocol import GrantType

#: Short names of what is a URN, and the names that OpenID Connect gives the two ways of sending a secret.
GRANTS: Final = {
    "device_code": GrantType.DEVICE_CODE.value,
    "token-exchange": GrantType.TOKEN_EXCHANGE.value,
    "token_exchange": GrantType.TOKEN_EXCHANGE.value,
}
_Policy: Final = OAuthClient.Policy
METHODS: Final = {"client_secret_basic": "secret", "client_secret_post": "secret"}
#: Which option gives a field, for messages.
OPTIONS: Final = {
    "name": "--name", "auth_method": "--auth-method", "redirect_uris": "--redirect-uri", "grants": "--grant",
    "post_logout_redirect_uris": "--post-logout-redirect-uri", "backchannel_logout_uri": "--backchannel-logout-uri",
    "initiate_login_uri": "--initiate-login-uri",
    "scopes": "--scope", "require_pkce": "--no-pkce", "dpop": "--dpop", "subject_type": "--subject-type",
    "sector": "--sector", "id_token_alg": "--id-token-alg", "jwks": "--jwks", "access_token_s": "--access-token-s",
    "session_idle_s": "--session-idle-s", "session_absolute_s": "--session-absolute-s",
    "resource_server": "--resource-server", "administers": "--administers", "profile": "--profile",
    "require_par": "--require-par", "request_object_signing_alg": "--request-object-signing-alg",
    "authorization_signed_response_alg": "--authorization-signed-response-alg", "serves": "--serves",
    "resources": "--resource", "authorization_details_types": "--authorization-details-type",
    "access_token_alg": "--access-token-alg",
    "tls_client_auth_subject_dn": "--tls-client-auth-subject-dn", "certificate_bound": "--certificate-bound",
    "jwks_uri": "--jwks-uri", "request_uris": "--request-uri", "logo_uri": "--logo-uri", "policy_uri": "--policy-uri",
    "tos_uri": "--tos-uri", "userinfo_signed_response_alg": "--userinfo-signed-response-alg",
}  # fmt: skip
FIELDS: Final = (*OPTIONS, "trusted", "strict_scopes", "id_token_claims")
NO_PUBLIC: Final = "--public says that the client has no secret: leave out --auth-method, or --public."
UNKNOWN: Final = "There is no client with this client_id: `manage.py oauth_client list` shows those there are."
ONCE: Final = (
    "The secret is shown this one time: keep it now, or make another with `manage.py oauth_client rotate_secret`."
)


class Command(BaseCommand):
    """Create, list, disable, enable and re-key OAuth clients."""

    help = (
        "Set up the applications that sign their users in here. Prints JSON: an object, or for `list` an array; "
        "messages go to standard error. Exit status 0, 1 when something is refused, 2 for a wrong command line."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the acts."""
        acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
        _add_create(acts.add_parser("create", help="make a client; print it with its client_id and client_secret"))
        acts.add_parser("list", help="print every client, without secrets")
        for act, what in (
            ("disable", "refuse a client and all its tokens at once; its sessions end"),
            ("enable", "let a disabled client sign people in again"),
            ("rotate_secret", "give a client another secret; print it"),
        ):
            one = acts.add_parser(act, help=what)
            one.add_argument("client_id")
            if act == "rotate_secret":
                one.add_argument(
                    "--expire-old-in-s", type=int, default=EXPIRE_OLD_S, metavar="SECONDS",
                    help=f"how long the secret before still works (default: {EXPIRE_OLD_S}, a day; 0: not at all)",
                )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what was asked.

        Raises:
            CommandError: naming every bad option.
        """
        acts = {"create": self._create, "list": self._list, "rotate_secret": self._rotate}
        acts.get(options["act"], self._switch)(options)

    def _create(self, options: dict[str, Any]) -> None:
        client = _client_of(options)
        problems = client_rules.problems_of(client)
        if problems:
            raise CommandError("\n".join(f"{OPTIONS[one.field]}: {one.message}" for one in problems))
        secret = client_units.create(client)
        self._print({**_described(client), **({"client_secret": secret} if secret else {})})
        if secret:
            self.stderr.write(ONCE)

    def _list(self, options: dict[str, Any]) -> None:
        clients = OAuthClient.objects.prefetch_related("secrets")
        self._print([
            {
                **_described(client),
                "disabled_at": _moment(client.disabled_at),
                "secrets": [{"hint": one.hint, "expires_at": _moment(one.expires_at)} for one in client.secrets.all()],
            }
            for client in clients
        ])  # fmt: skip

    def _rotate(self, options: dict[str, Any]) -> None:
        seconds = options["expire_old_in_s"]
        if not 0 <= seconds <= MOST_EXPIRE_OLD_S:
            raise CommandError(f"--expire-old-in-s: write 0 to {MOST_EXPIRE_OLD_S} seconds.")
        client_id = _id(options["client_id"])
        try:
            secret = client_units.rotate_secret(client_id, expire_old_in_s=seconds)
        except OAuthClient.DoesNotExist as error:
            raise CommandError(UNKNOWN) from error
        except NoSecretError as refused:
            raise CommandError(str(refused)) from refused
        self._print({"client_id": str(client_id), "client_secret": secret, "old_expires_in_s": seconds})
        self.stderr.write(ONCE)

    def _switch(self, options: dict[str, Any]) -> None:
        client_id, enabling = _id(options["client_id"]), options["act"] == "enable"
        unit: Any = client_units.enable if enabling else client_units.disable
        try:
            done = unit(client_id)
        except OAuthClient.DoesNotExist as error:
            raise CommandError(UNKNOWN) from error
        ended = {} if enabling else {"sessions_ended": done or 0}
        self._print({"client_id": str(client_id), "disabled": not enabling, **ended})
        if done is None or done is False:
            self.stderr.write(f"Nothing to do: the client is {options['act']}d already.")

    def _print(self, answer: object) -> None:
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(json.dumps(answer))


METHOD: Final = (
    "secret (default), private_key_jwt, tls_client_auth, self_signed_tls_client_auth, or none: the same as --public"
)


def _add_create(parser: ArgumentParser) -> None:
    """Add the options of ``create``; what is a list may be given several times."""
    add = parser.add_argument
    add("--name", required=True, help="what people know the application by")
    known = ", ".join(f"{name} ({one.words.rstrip('.')})" for name, one in PROFILES.items())
    add(
        "--profile", metavar="PROFILE", help=f"the rules it keeps, and what it begins with (default: oauth2.1): {known}"
    )
    add("--redirect-uri", action="append", default=[], metavar="URI", help="where it is answered at; several times")
    add("--public", action="store_true", help="it can keep no secret: an application on a device or in a browser")
    add("--auth-method", metavar="METHOD", help=METHOD)
    add("--jwks", metavar="FILE", help="its public keys, as a JWK set")
    add("--jwks-uri", default="", metavar="URI", help="where its public keys are, instead of --jwks")
    add("--tls-client-auth-subject-dn", default="", metavar="NAME", help="the subject of its certificate (RFC 4514)")
    grants = "authorization_code, refresh_token (default: these two), client_credentials, device_code, token-exchange"
    add("--grant", action="append", metavar="GRANT", help=grants)
    add("--scope", action="append", metavar="SCOPE", help="what it may ask for (default: who the person is)")
    add("--trusted", action="store_true", help="people are not asked for consent: one of your own")
    add("--no-pkce", action="store_true", help="for a confidential client that cannot send it: the profile oidc")
    add("--require-par", action="store_true", help="authorization requests have to be pushed")
    add("--resource-server", action="store_true", help="an API of yours: it may ask about everybody's tokens for it")
    add("--serves", action="append", default=[], metavar="URI", help="a registered API that this one is; several times")
    add(
        "--resource", action="append", default=[], metavar="URI",
        help="a registered API that it may ask tokens for; several times (default: every one)",
    )  # fmt: skip
    add(
        "--authorization-details-type", action="append", default=[], metavar="TYPE",
        help="a registered type of authorization details that it may ask for; several times (default: none)",
    )  # fmt: skip
    add("--administers", action="store_true", help="it may call the admin API with such of its scopes as users:read")
    add("--strict-scopes", action="store_true", help="refuse a scope that is not in its list; otherwise it is ignored")
    add("--id-token-claims", action="store_true", help="name, address and roles are in the ID token too")
    add("--dpop", metavar="POLICY", help="off, optional (default), required")
    add("--certificate-bound", action="store_true", help="its tokens are good with its certificate alone; DPoP is off")
    add("--id-token-alg", metavar="ALG", help="RS256 (default: every library), ES256, ed25519")
    add("--access-token-alg", metavar="ALG", help="ed25519 (default); RS256 or ES256 for an API that cannot verify it")
    add("--request-object-signing-alg", metavar="ALG", help="what signs its requests (RFC 9101): PS256, ES256, EdDSA")
    answers = "what signs answers that are asked for as JWTs: ed25519 (default), ES256, RS256"
    add("--authorization-signed-response-alg", metavar="ALG", help=answers)
    add("--request-uri", action="append", default=[], metavar="URI", help="where its requests may be fetched")
    userinfo = "what signs the answers of userinfo: RS256, ES256, ed25519 (default: they are plain JSON)"
    add("--userinfo-signed-response-alg", default="", metavar="ALG", help=userinfo)
    add("--logo-uri", default="", metavar="URI", help="its picture, of which people are shown a copy")
    add("--policy-uri", default="", metavar="URI", help="what it says about people's data")
    add("--tos-uri", default="", metavar="URI", help="its terms")
    add("--subject-type", default=OAuthClient.Subject.PUBLIC, metavar="TYPE", help="public (default) or pairwise")
    add("--sector", default="", metavar="HOST", help="clients of one sector see the same pairwise subjects")
    add("--post-logout-redirect-uri", action="append", default=[], metavar="URI", help="where to go after signing out")
    add("--backchannel-logout-uri", default="", metavar="URI", help="what is told of people who signed out")
    add("--initiate-login-uri", default="", metavar="URI", help="the application's address where a sign-in begins")
    for name in ("access-token", "session-idle", "session-absolute"):
        add(f"--{name}-s", type=int, metavar="SECONDS", help="default: as the settings say")


def _client_of(options: dict[str, Any]) -> OAuthClient:
    """Return the client that the options describe, not judged yet. Raises ``CommandError``."""
    method = options["auth_method"]
    if options["public"] and method not in (None, OAuthClient.AuthMethod.NONE):
        raise CommandError(NO_PUBLIC)
    profile = options["profile"] or (OAuthClient.Profile.OIDC if options["no_pkce"] else OAuthClient.Profile.OAUTH21)
    begun = profiles.initial(profile)
    method = OAuthClient.AuthMethod.NONE if options["public"] else method or begun.get("auth_method", "secret")
    given = [GRANTS.get(grant, grant) for grant in options["grant"] or default_grants()]
    scopes = [scope for text in options["scope"] for scope in text.split()] if options["scope"] else None
    return OAuthClient(
        name=names.normalise(options["name"]),
        profile=profile,
        auth_method=METHODS.get(method, method),
        redirect_uris=options["redirect_uri"],
        post_logout_redirect_uris=options["post_logout_redirect_uri"],
        backchannel_logout_uri=options["backchannel_logout_uri"],
        initiate_login_uri=options["initiate_login_uri"],
        grants=given,
        scopes=client_rules.scopes_for(given) if scopes is None else scopes,
        strict_scopes=options["strict_scopes"],
        trusted=options["trusted"],
        require_pkce=not options["no_pkce"] and begun.get("require_pkce", True),
        require_par=options["require_par"] or begun.get("require_par", False),
        resource_server=options["resource_server"],
        serves=options["serves"],
        resources=options["resource"],
        authorization_details_types=options["authorization_details_type"],
        administers=options["administers"],
        dpop=options["dpop"] or (_Policy.OFF if options["certificate_bound"] else begun.get("dpop", _Policy.OPTIONAL)),
        certificate_bound=options["certificate_bound"],
        subject_type=options["subject_type"],
        sector=options["sector"],
        id_token_alg=options["id_token_alg"] or begun.get("id_token_alg", ID_TOKEN_ALG),
        access_token_alg=options["access_token_alg"] or OAuthClient.IdTokenAlg.ED25519,
        id_token_claims=options["id_token_claims"],
        request_object_signing_alg=options["request_object_signing_alg"]
        or begun.get("request_object_signing_alg", OAuthClient.RequestAlg.NONE),
        authorization_signed_response_alg=options["authorization_signed_response_alg"]
        or OAuthClient.IdTokenAlg.ED25519,
        tls_client_auth_subject_dn=options["tls_client_auth_subject_dn"],
        jwks=_keys(options["jwks"]) if options["jwks"] else None,
        request_uris=options["request_uri"],
        **{
            name: options[name]
            for name in ("jwks_uri", "userinfo_signed_response_alg", "logo_uri", "policy_uri", "tos_uri")
        },
        access_token_s=options["access_token_s"],
        session_idle_s=options["session_idle_s"],
        session_absolute_s=options["session_absolute_s"],
    )


def _keys(path: str) -> Any:
    """Return the JSON in a file of keys."""
    try:
        text = Path(path).read_bytes()[: MAX_FILE_BYTES + 1]
        return strict_json.loads(text if len(text) <= MAX_FILE_BYTES else b"")
    except (OSError, strict_json.InvalidJson) as error:
        raise CommandError(
            f"--jwks: {path} is no readable JSON file: write the public keys there as a JWK set."
        ) from error


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise CommandError(UNKNOWN) from error


def _described(client: OAuthClient) -> dict[str, object]:
    """Return what is stored about a client, but no secret."""
    return {"client_id": str(client.pk), **{name: getattr(client, name) for name in FIELDS}}


def _moment(at: Any) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None
