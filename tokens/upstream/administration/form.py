"""The form of a sign-in provider: everything that one may be, for the admin's page and for the API."""

import re
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.core.exceptions import ValidationError

from accounts.federation.kinds.registry import KINDS
from accounts.federation.models import UpstreamProvider
from ironauth.infrastructure.admin.lines import LinesField
from tokens.upstream import client_secret, exchange, lost_ways

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    ModelForm = forms.ModelForm[UpstreamProvider]
else:
    ModelForm = forms.ModelForm

MAX_SECRET: Final = 1_024  # characters
#: A scope (RFC 6749 §3.3), of a length that a hundred of them fit into an address.
SCOPE: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]{1,128}")
#: The field by which somebody says that people may be left without a way in; no field of the provider.
LEAVE: Final = "leave_without_way_in"


class ProviderForm(ModelForm):
    """A provider; its secret is typed and never shown."""

    kind = forms.ChoiceField(choices=[(kind.name, kind.label) for kind in KINDS.values()])
    secret = forms.CharField(
        label="Client secret",
        required=False,
        max_length=MAX_SECRET,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="From the provider. It is sealed and never shown; leave it empty to keep the one that is stored.",
    )
    leave_without_way_in = forms.BooleanField(
        required=False,
        label="Leave people without a way in",
        help_text="Asked for where somebody could not sign in any more without this provider, or with another issuer.",
    )
    shuts_out = False
    #: Whether it is asked as another client from now on: what it has given before is for the client of before.
    is_another = False
    second_factors = LinesField(
        rows=2,
        label="Values that mean a second factor",
        help_text=UpstreamProvider._meta.get_field("second_factors").help_text,  # noqa: SLF001 - documented by Django
    )
    more_scopes = LinesField(
        rows=2,
        label="Further scopes",
        help_text=UpstreamProvider._meta.get_field("more_scopes").help_text,  # noqa: SLF001 - documented by Django
    )
    domains = LinesField(rows=2, label="Mail domains", help_text=UpstreamProvider._meta.get_field("domains").help_text)  # noqa: SLF001 - documented by Django

    class Meta:
        """Which fields."""

        model = UpstreamProvider
        fields = (
            "name", "slug", "kind", "issuer", "client_id", "secret", "enabled", "creates_accounts", "trusts_email",
            "domains", "second_factors", "updates_name", "more_scopes", "keep_tokens",
        )  # fmt: skip

    def clean_domains(self) -> list[str]:
        """Return the domains in small letters; refuse what is no domain."""
        found = [str(one).lower().removeprefix("@") for one in self.cleaned_data["domains"]]
        for one in found:
            if "." not in one or not one.isprintable() or any(c in one for c in "@/ :"):
                raise ValidationError(f"{one!r} is no domain: write example.com, one to a line.")
        return found

    def clean_more_scopes(self) -> list[str]:
        """Return the scopes; refuse what is no scope (RFC 6749 §3.3)."""
        found = [str(one) for one in self.cleaned_data["more_scopes"]]
        for one in found:
            if SCOPE.fullmatch(one) is None:
                raise ValidationError(f"{one!r} is no scope: write one to a line, without spaces and quotes.")
        return found

    def clean(self) -> dict[str, Any]:
        """Judge what depends on the kind."""
        data = super().clean() or self.cleaned_data
        kind = KINDS.get(data.get("kind", ""))
        if kind is None:
            return data
        if kind.issuer:
            data["issuer"] = kind.issuer
        elif not exchange.is_acceptable(data.get("issuer", "")):
            self.add_error("issuer", "Give the issuer's https address, as the provider's discovery document has it.")
        is_new = self.instance._state.adding  # noqa: SLF001 - documented by Django
        if is_new and not data.get("secret"):
            self.add_error("secret", "Give the client secret that the provider has made for this application.")
        if not is_new:
            self._judge_change(data)
        if kind.signs_secret and data.get("secret"):
            try:
                client_secret.require_usable(data["secret"])
            except client_secret.InvalidSecretError as error:
                self.add_error("secret", str(error))
        return data

    def _judge_change(self, data: dict[str, Any]) -> None:
        """Demand the secret anew for another issuer, and a word where people would be left without a way in."""
        before = UpstreamProvider.objects.get(pk=self.instance.pk)
        moves = (before.kind, before.issuer) != (data.get("kind"), data.get("issuer"))
        if moves and not data.get("secret"):
            self.add_error(
                "secret",
                "Give the client secret that the new issuer has made: the stored one is for the issuer before, and is "
                "sent to no other.",
            )
        self.is_another = moves or before.client_id != data.get("client_id")
        self.shuts_out = moves or not data.get("enabled")  # saved again, it ends what an interruption has left
        if before.enabled and self.shuts_out and not data.get("leave_without_way_in"):
            words = lost_ways.warning(before)
            if words:
                self.add_error("leave_without_way_in", words)
