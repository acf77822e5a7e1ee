"""What the API accepts about clients. Which values a client may have is said in ``clients.rules``."""

from types import MappingProxyType
from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.fields import ChoiceField, FlagField, TextField
from accounts.lists import ListInput, SearchField, no_controls
from tokens.clients.models import NAME_CHARACTERS, URI_CHARACTERS, OAuthClient
from tokens.clients.presets import PRESETS
from tokens.clients.rules import MAX_URIS
from tokens.clients.units import EXPIRE_OLD_S, MOST_EXPIRE_OLD_S
from tokens.protocol import GrantType

#: The only order there is of the list; part of each cursor.
ORDERING: Final = "client -created_at"
STATES: Final = ("enabled", "disabled")


def _texts(help_text: str) -> Any:
    """Return the field of a list of texts."""
    return serializers.ListField(
        child=TextField(validate=no_controls), required=False, max_length=MAX_URIS, help_text=help_text
    )


def _seconds(help_text: str) -> Any:
    return serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=2**31 - 1, help_text=help_text
    )


@extend_schema_field({"type": "object", "description": "A JWK set (RFC 7517 §5) of public keys."})
class KeysField(serializers.Field[Any, Any, Any, Any]):
    """A JWK set, or null; ``clients.keys`` judges it."""

    default_error_messages = {"not_keys": "Send a JWK set, or null."}

    def to_internal_value(self, data: object) -> Any:
        """Return the set as it was sent."""
        if not isinstance(data, dict):
            self.fail("not_keys")
        return data

    def to_representation(self, value: Any) -> Any:
        """Return the set itself."""
        return value


class ClientPatchInput(serializers.Serializer[Any]):
    """Body of ``PATCH /clients/{id}``; a field that is not sent stays as it is."""

    name = TextField(
        required=False, validate=no_controls, help_text=f"At most {NAME_CHARACTERS} characters: what people know it by."
    )
    profile = ChoiceField(
        required=False,
        choices=OAuthClient.Profile.choices,
        help_text="The rules it keeps. Of a new client it also fills in what is not sent.",
    )
    auth_method = ChoiceField(required=False, choices=OAuthClient.AuthMethod.choices)
    redirect_uris = _texts("Where people come back to; compared character by character.")
    post_logout_redirect_uris = _texts("Where people may be led after signing out.")
    backchannel_logout_uri = TextField(
        required=False, allow_blank=True, help_text=f"What is told of people who sign out; {URI_CHARACTERS} characters."
    )
    initiate_login_uri = TextField(
        required=False,
        allow_blank=True,
        help_text=f"Where the application begins a sign-in, for invitations; {URI_CHARACTERS} characters.",
    )
    grants = serializers.ListField(child=ChoiceField(choices=[grant.value for grant in GrantType]), required=False)
    scopes = _texts("What it may ask for.")
    strict_scopes = FlagField(
        required=False, help_text="Refuse a scope that is not in the list, and name it; otherwise it is ignored."
    )
    trusted = FlagField(required=False, help_text="People are not asked for consent. Only a superuser sets it.")
    require_pkce = FlagField(required=False)
    require_par = FlagField(required=False)
    resource_server = FlagField(
        required=False, help_text="An API: it may ask about every client's access tokens for it."
    )
    serves = _texts("Identifiers of the registered APIs that it is; empty: of tokens for no registered API.")
    resources = _texts("Identifiers of the registered APIs that it may ask tokens for; empty: all of them.")
    authorization_details_types = _texts("Types of authorization details that it may ask for (RFC 9396); empty: none.")
    administers = FlagField(
        required=False, help_text="It may call this API with such of its scopes as users:read. A superuser sets it."
    )
    dpop = ChoiceField(required=False, choices=OAuthClient.Policy.choices)
    certificate_bound = FlagField(
        required=False,
        help_text="Its tokens are good with the certificate of its connection alone (RFC 8705); DPoP is off then.",
    )
    subject_type = ChoiceField(required=False, choices=OAuthClient.Subject.choices)
    sector = TextField(required=False, allow_blank=True, help_text="A host name, for pairwise subjects.")
    id_token_alg = ChoiceField(required=False, choices=OAuthClient.IdTokenAlg.choices)
    access_token_alg = ChoiceField(
        required=False,
        choices=OAuthClient.IdTokenAlg.choices,
        help_text="What signs its access tokens. RS256 or ES256 for an API whose software cannot verify Ed25519.",
    )
    id_token_claims = FlagField(
        required=False,
        help_text="Name, address and roles are in the ID token too, for software that does not ask userinfo.",
    )
    request_object_signing_alg = ChoiceField(
        required=False,
        choices=OAuthClient.RequestAlg.choices,
        help_text="What signs its request objects (RFC 9101); empty: it sends none.",
    )
    authorization_signed_response_alg = ChoiceField(
        required=False,
        choices=OAuthClient.IdTokenAlg.choices,
        help_text="What signs answers that are JWTs: of authorization (JARM) and introspection (RFC 9701).",
    )
    tls_client_auth_subject_dn = TextField(
        required=False,
        allow_blank=True,
        help_text="The subject of its certificate (RFC 4514), for tls_client_auth: CN=bank.example.com,O=Bank.",
    )
    jwks = KeysField(required=False, allow_null=True)
    jwks_uri = TextField(
        required=False,
        allow_blank=True,
        help_text="Where its public keys are, instead of jwks; fetched when they are needed.",
    )
    request_uris = _texts("Where its requests may be fetched (IRONAUTH_REQUEST_URIS); as they stand in requests.")
    userinfo_signed_response_alg = serializers.ChoiceField(
        required=False,
        choices=OAuthClient.UserinfoAlg.choices,
        help_text="What signs the answers of userinfo; empty: they are plain JSON.",
    )
    logo_uri = TextField(
        required=False, allow_blank=True, help_text="Its picture: PNG, JPEG or WebP, 64 KiB. People are shown a copy."
    )
    policy_uri = TextField(
        required=False, allow_blank=True, help_text="What it says about people's data; people are shown the link."
    )
    tos_uri = TextField(required=False, allow_blank=True, help_text="Its terms; people are shown the link.")
    access_token_s = _seconds("Seconds an access token lives; null: as the settings say.")
    session_idle_s = _seconds("Seconds a session lives without use; null: as the settings say.")
    session_absolute_s = _seconds("Seconds a session lives at most; null: as the settings say.")


class ClientCreateInput(ClientPatchInput):
    """Body of ``POST /clients``; ``preset`` fills in what is not sent."""

    name = TextField(validate=no_controls, help_text=f"At most {NAME_CHARACTERS} characters: what people know it by.")
    preset = ChoiceField(
        required=False,
        choices=list(PRESETS),
        help_text="The kind of application; without it people sign in through a browser, and the client has a secret.",
    )


class RotateInput(serializers.Serializer[Any]):
    """Body of ``POST /clients/{id}/secret``."""

    expire_old_in_s = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MOST_EXPIRE_OLD_S,
        default=EXPIRE_OLD_S,
        help_text="Seconds for which the newest secret before still works.",
    )
    newest = serializers.UUIDField(
        required=False,
        allow_null=True,
        default=None,
        help_text="The id of the newest secret that you know. With it, a request that is sent twice replaces it once.",
    )


class ClientListInput(ListInput):
    """Query of ``GET /clients``."""

    places = MappingProxyType({"": ORDERING})

    search = SearchField(most=NAME_CHARACTERS, help_text="A part of the name, or a client_id.")
    state = ChoiceField(required=False, choices=STATES)
