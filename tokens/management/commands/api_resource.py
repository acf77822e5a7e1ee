"""``manage.py api_resource``: register APIs from scripts. JSON on standard output, messages on standard error."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from tokens.registered.command import RegisteredCommand
from tokens.resources.administration.kind import RESOURCES
from tokens.resources.models import ApiResource


class Command(RegisteredCommand):
    """Create, list, disable, enable and delete registered APIs."""

    help = (
        "Register the APIs that access tokens are made for (RFC 8707). Prints JSON: an object, or for `list` an array; "
        "messages go to standard error. Exit status 0, 1 when something is refused, 2 for a wrong command line."
    )
    kind = RESOURCES
    noun = "API"
    unknown = "There is no API with this identifier: `manage.py api_resource list` shows those there are."
    acts = {
        "create": "register an API; print it",
        "list": "print every API",
        "disable": "make no more tokens for an API; introspection calls those there are inactive",
        "enable": "make tokens for it again",
        "delete": "forget it; grants for it give no more tokens",
    }
    options = {
        "identifier": "--identifier", "name": "--name", "scopes": "--scope", "signing_alg": "--signing-alg",
        "access_token_s": "--access-token-s",
    }  # fmt: skip

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the options of ``create``; what is a list may be given several times."""
        add = parser.add_argument
        aud = "the aud of its tokens, like https://api.example.com/orders"
        add("--identifier", required=True, metavar="URI", help=aud)
        add("--name", required=True, help="what people read on the consent page")
        add("--scope", action="append", default=[], metavar="SCOPE", help="a scope of its own; several times")
        algs = "ed25519 (default), ES256, RS256"
        add("--signing-alg", default=ApiResource.SigningAlg.ED25519, metavar="ALG", help=algs)
        lives = "most seconds a token lives (default: as the settings)"
        add("--access-token-s", type=int, metavar="SECONDS", help=lives)
        help_open = "applications that registered themselves may have its scopes"
        add("--for-self-registered", action="store_true", help=help_open)

    def values(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the API; an option of scopes may have several."""
        given = {name: options[name] for name in ("identifier", "name", "signing_alg", "access_token_s")}
        scopes = [scope for text in options["scope"] for scope in text.split()]
        return {**given, "scopes": scopes, "for_self_registered": options["for_self_registered"]}
