"""What the API accepts about registered APIs. Which values one may have is said in ``resources.rules``."""

from typing import Any

from rest_framework import serializers

from accounts.fields import ChoiceField, FlagField, TextField
from accounts.lists import no_controls
from tokens.resources.identifiers import MAX_CHARACTERS
from tokens.resources.models import NAME_CHARACTERS, ApiResource
from tokens.resources.rules import MOST_SCOPES


class ResourcePatchInput(serializers.Serializer[Any]):
    """Body of ``PATCH /resources/{id}``; a field that is not sent stays as it is."""

    name = TextField(
        required=False, validate=no_controls, help_text=f"At most {NAME_CHARACTERS} characters: for the consent page."
    )
    scopes = serializers.ListField(
        child=TextField(validate=no_controls),
        required=False,
        max_length=MOST_SCOPES,
        help_text="Its own scopes; a token for it has no other API's.",
    )
    signing_alg = ChoiceField(
        required=False, choices=ApiResource.SigningAlg.choices, help_text="What signs its access tokens."
    )
    access_token_s = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=2**31 - 1,
        help_text="Seconds an access token lives at most; null: as the client or the settings say.",
    )
    for_self_registered = FlagField(
        required=False, help_text="Whether applications that registered themselves may have its scopes; at first not."
    )
    active = FlagField(required=False, help_text="Without it no token is made for the API, and those there are end.")


class ResourceCreateInput(ResourcePatchInput):
    """Body of ``POST /resources``."""

    identifier = TextField(
        validate=no_controls,
        help_text=f"An absolute URI of at most {MAX_CHARACTERS} characters: the `aud` of its tokens. It stays.",
    )
    name = TextField(validate=no_controls, help_text=f"At most {NAME_CHARACTERS} characters: for the consent page.")
