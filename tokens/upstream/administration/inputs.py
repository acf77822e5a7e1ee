"""What the API accepts about sign-in providers. Which values one may have is said by its form (``form``)."""

from typing import Any, Final

from rest_framework import serializers

from accounts.federation.kinds.registry import KINDS
from accounts.fields import ChoiceField, FlagField, TextField
from accounts.lists import no_controls

MOST: Final = 100  # domains, or values that mean a second factor


def _texts(help_text: str) -> Any:
    return serializers.ListField(
        child=TextField(validate=no_controls), required=False, max_length=MOST, help_text=help_text
    )


class ProviderPatchInput(serializers.Serializer[Any]):
    """Body of ``PATCH /providers/{slug}``; a field that is not sent stays as it is."""

    name = TextField(required=False, help_text="What the button says: Continue with …")
    kind = ChoiceField(required=False, choices=list(KINDS))
    issuer = TextField(
        required=False,
        allow_blank=True,
        help_text="Its address, as its discovery document has it; some kinds have one.",
    )
    client_id = TextField(required=False)
    secret = TextField(
        required=False,
        help_text="The client secret from the provider, in no answer. Another issuer needs it anew.",
    )
    enabled = FlagField(required=False, help_text="Without it nobody signs in with the provider.")
    creates_accounts = FlagField(required=False)
    trusts_email = FlagField(required=False)
    domains = _texts("Domains whose mailboxes the provider runs.")
    second_factors = _texts("Values of its amr or acr that mean a second factor.")
    updates_name = FlagField(required=False)
    more_scopes = _texts("Scopes to ask for beside those of a sign-in.")
    keep_tokens = FlagField(
        required=False,
        help_text="Keep the provider's tokens, sealed, for your services. Switched off, those kept are deleted.",
    )
    leave_without_way_in = FlagField(
        required=False,
        default=False,
        help_text="Go on where people could not sign in any more without the provider, or with another issuer.",
    )


class ProviderCreateInput(ProviderPatchInput):
    """Body of ``POST /providers``."""

    slug = TextField(help_text="Small letters, digits and hyphens; part of the redirect URI. It cannot be changed.")
    name = TextField(help_text="What the button says: Continue with …")
    kind = ChoiceField(choices=list(KINDS))
    client_id = TextField()
    secret = TextField(help_text="The client secret from the provider. It is sealed, and in no answer.")
