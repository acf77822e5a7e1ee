"""``manage.py upstream_provider``: set up from scripts with which providers people may sign in."""

import sys
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.federation import kept_tokens
from accounts.federation.kinds.registry import KINDS
from accounts.federation.models import UpstreamProvider
from accounts.federation.secrets import seal_into
from ironauth.config import asked_port
from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from tokens.admin.providers import tried
from tokens.upstream import answers, client_secret, exchange, lost_ways
from tokens.upstream.administration.form import SCOPE

_UNKNOWN = "There is no provider of this short name: `manage.py upstream_provider list` shows those there are."

_NOT_TRIED = (
    'Client ID, secret and redirect URI are not tried by this: press "Try a sign-in" on the provider\'s page in the '
    "admin."
)


#: What follows a redirect URI where nothing but the port of this machine makes the issuer.
_OTHER_PORT = (
    "Does the server run on another port (`make run PORT=8765`)? Write IRONAUTH_SERVE_PORT=8765 into var/env, and "
    "every command and `make run` have it."
)


class Command(BaseCommand):
    """Add, list, try, switch on and off."""

    help = (
        "Set up the providers that people may sign in with. `add` reads the client secret from standard input, so that "
        "it is in no list of processes."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the acts."""
        acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
        add = acts.add_parser("add", help="add a provider; its client secret comes from standard input")
        add.add_argument("slug", help="short name, part of the redirect URI: small letters, digits, hyphens")
        add.add_argument("--kind", choices=list(KINDS), default="oidc")
        add.add_argument("--issuer", default="", help="the provider's address; google and github need none")
        add.add_argument("--client-id", required=True)
        add.add_argument("--name", help="what the button says (default: the short name)")
        add.add_argument("--trusts-email", action="store_true", help="its verified addresses count as verified here")
        add.add_argument("--domain", action="append", default=[], help="a domain whose mailboxes it runs; repeatable")
        add.add_argument(
            "--second-factor",
            action="append",
            default=[],
            help="a value of its amr or acr that means a second factor; nobody is asked for their own then; repeatable",
        )
        add.add_argument("--updates-name", action="store_true", help="names become what it says, at each sign-in")
        add.add_argument("--scope", action="append", default=[], help="a further scope to ask for; repeatable")
        add.add_argument("--keep-tokens", action="store_true", help="keep its tokens, sealed, for services of yours")
        acts.add_parser("list", help="list the providers")
        for act, what in (
            ("try", "fetch its discovery document and keys now; the admin tries a whole sign-in"),
            ("disable", "let nobody sign in with it"),
            ("enable", "let people sign in with it again"),
            ("keep-tokens", "keep its tokens from now on, sealed, for services of yours"),
            ("drop-tokens", "keep its tokens no longer, and delete those that are kept"),
        ):
            switch = acts.add_parser(act, help=what)
            switch.add_argument("slug")
            if act == "disable":
                switch.add_argument(
                    "--leave-without-way-in",
                    action="store_true",
                    help="go on where people could not sign in any more without it",
                )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what was asked; raises ``CommandError`` with the remedy."""
        with ignore_broken_pipe(self.stdout):
            if options["act"] == "add":
                self._add(options)
            elif options["act"] == "list":
                for one in UpstreamProvider.objects.all():
                    state = "enabled" if one.enabled else "disabled"
                    self.stdout.write(f"{one.slug}  {one.kind}  {one.issuer}  {state}")
            elif options["act"] == "try":
                level, words = tried(_found(options["slug"]))
                if level == messages.ERROR:
                    raise CommandError(words)
                self.stdout.write(words)
                self.stdout.write(_NOT_TRIED)
                self.stdout.write(f"Its redirect URI is {answers.redirect_uri(options['slug'])}")
                self._tell_origin()
            elif options["act"].endswith("-tokens"):
                self._keep_tokens(options["slug"], keeps=options["act"] == "keep-tokens")
            else:
                may_leave = options.get("leave_without_way_in", False)
                self._switch(options["slug"], on=options["act"] == "enable", may_leave=may_leave)

    def _add(self, options: dict[str, Any]) -> None:
        kind = KINDS[options["kind"]]
        issuer = kind.issuer or options["issuer"]
        if not exchange.is_acceptable(issuer):
            raise CommandError("Give the provider's https address: --issuer https://…")
        secret = (sys.stdin.read() if kind.signs_secret else sys.stdin.readline()).strip()
        if not secret:
            raise CommandError("Give the client secret on standard input, for example from a file: … < secret.txt")
        if kind.signs_secret:
            try:
                client_secret.require_usable(secret)
            except client_secret.InvalidSecretError as error:
                raise CommandError(str(error)) from error
        provider = UpstreamProvider(
            slug=options["slug"],
            name=options["name"] or options["slug"],
            kind=kind.name,
            issuer=issuer,
            client_id=options["client_id"],
            trusts_email=options["trusts_email"] or kind.verifies_email,
            domains=[one.lower() for one in options["domain"]],
            second_factors=options["second_factor"],
            updates_name=options["updates_name"],
            more_scopes=options["scope"],
            keep_tokens=options["keep_tokens"],
        )
        for scope in provider.more_scopes:
            if SCOPE.fullmatch(scope) is None:
                raise CommandError(f"{scope!r} is no scope: give each with its own --scope, without spaces and quotes.")
        seal_into(provider, secret)
        try:
            provider.full_clean()
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        with transaction.atomic():
            provider.save()
            audit.record(Event.PROVIDER_CHANGED, details={"provider": provider.slug, "act": "added"})
        uri = answers.redirect_uri(provider.slug)
        self.stdout.write(f"Register this redirect URI at the provider: {uri}")
        self.stdout.write(f"If it sends logout tokens (back-channel logout), they go to: {uri}/logout")
        self._tell_origin()

    def _tell_origin(self) -> None:
        """Say what the address begins with: the settings of this process, which are not always the server's."""
        self.stdout.write(f"It begins with IRONAUTH_ISSUER, which is {settings.IRONAUTH_ISSUER} for this command.")
        by_port = settings.DEBUG and asked_port.origin(settings.IRONAUTH_SERVE_PORT) == settings.IRONAUTH_ISSUER
        if by_port and not asked_port.is_given():
            self.stdout.write(_OTHER_PORT)

    def _switch(self, slug: str, *, on: bool, may_leave: bool) -> None:
        provider = _found(slug)
        words = "" if on or may_leave else lost_ways.warning(provider)
        if words:
            raise CommandError(words.replace("Tick this to go on.", "Say --leave-without-way-in to go on."))
        with transaction.atomic():
            provider.enabled = on
            provider.save()
            audit.record(Event.PROVIDER_CHANGED, details={"provider": slug, "act": "enabled" if on else "disabled"})
            if not on:
                lost_ways.end_after_commit(provider_id=provider.pk, slug=slug, actor_id=None)
        self.stdout.write(f"{provider.name} is {'enabled' if on else 'disabled'}.")

    def _keep_tokens(self, slug: str, *, keeps: bool) -> None:
        with transaction.atomic():
            provider = _found(slug)
            provider.keep_tokens = keeps
            provider.save(update_fields=["keep_tokens"])
            dropped = 0 if keeps else kept_tokens.forget(provider.pk)
            details = {"provider": slug, "act": "changed", "fields": ["keep_tokens"]}
            audit.record(Event.PROVIDER_CHANGED, details=details)
        if keeps:
            self.stdout.write(f"Tokens of {provider.name} are kept from each person's next sign-in on.")
        else:
            self.stdout.write(f"Tokens of {provider.name} are kept no longer; deleted: those of {dropped} identities.")


def _found(slug: str) -> UpstreamProvider:
    provider = UpstreamProvider.objects.filter(slug=slug).first()
    if provider is None:
        raise CommandError(_UNKNOWN)
    return provider
