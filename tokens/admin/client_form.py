"""The form of a client in Django's admin: lists one to a line, choices to tick, every field judged as typed."""

from typing import TYPE_CHECKING, Any, ClassVar, Final

from django import forms
from django.core.exceptions import ValidationError
from django.forms.utils import pretty_name

from accounts import names
from ironauth.infrastructure.admin.json_text import JsonField
from ironauth.infrastructure.admin.lines import LinesField
from ironauth.infrastructure.admin.made_once import NEW_ID, NewIdField, signed_id
from ironauth.infrastructure.core.errors import FieldError
from ironauth.infrastructure.core.ids import new_id
from tokens.clients import rules as client_rules
from tokens.clients.keys import MAX_FILE_BYTES
from tokens.clients.models import OAuthClient
from tokens.clients.presets import ID_TOKEN_ALG
from tokens.protocol import GrantType, Scope

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    ModelForm = forms.ModelForm[OAuthClient]
else:
    ModelForm = forms.ModelForm

OTHER_SCOPES: Final = "other_scopes"
GRANT_LABELS: Final = {
    GrantType.AUTHORIZATION_CODE: "authorization_code: people sign in through their browser",
    GrantType.REFRESH_TOKEN: "refresh_token: they stay signed in",
    GrantType.CLIENT_CREDENTIALS: "client_credentials: the application itself, nobody behind it",
    GrantType.DEVICE_CODE: "device_code: people sign in on another device (TVs, command lines)",
    GrantType.TOKEN_EXCHANGE: "token-exchange: it passes on what it was given, for another service",
}
SCOPE_LABELS: Final = {
    Scope.OPENID: "openid: who somebody is, as an id",
    Scope.PROFILE: "profile: names, language, time zone",
    Scope.EMAIL: "email: the address, and whether it is verified",
    Scope.ROLES: "roles: the names of the roles here",
    Scope.ORGANIZATION: "organization: which one they act for, and their role there",
    Scope.OFFLINE_ACCESS: "offline_access: tokens outlive the sign-in here",
    Scope.ACCOUNT: "account: everything people may do with their account here",
}


class KeysField(JsonField):
    """A JWK set as JSON; empty for none."""

    rows, most, empty = 6, MAX_FILE_BYTES, "null"
    remedy = 'Paste the JWK set, {"keys": [ … ]}.'


def _ticks(choices: dict[Any, str]) -> Any:
    return forms.MultipleChoiceField(
        choices=[(str(value), label) for value, label in choices.items()],
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )


class ClientForm(ModelForm):
    """Everything about a client but its secrets and whether it is disabled."""

    #: Whether the caller is a superuser; set by the admin on the class it makes for a request.
    may_trust: ClassVar[bool] = True

    redirect_uris = LinesField(
        label="Redirect URIs",
        help_text="One to a line, compared character by character. https://…, http://127.0.0.1/… on any port, "
        "http://localhost:3000/…, or com.example.app:/… for a public client.",
    )
    post_logout_redirect_uris = LinesField(
        label="Post-logout redirect URIs", rows=2, help_text="Where people may be led after signing out; one to a line."
    )
    grants = _ticks(GRANT_LABELS)
    scopes = _ticks(SCOPE_LABELS)
    other_scopes = LinesField(
        rows=2, help_text="Scopes of your own services, such as reports:read; one to a line. They are in the tokens."
    )
    resources = LinesField(
        label="APIs that it may ask tokens for",
        rows=2,
        help_text="Identifiers of registered APIs, one to a line; empty: every one.",
    )
    authorization_details_types = LinesField(
        label="Authorization details",
        rows=2,
        help_text="Registered types that it may ask for (RFC 9396), one to a line; empty: none.",
    )
    serves = LinesField(
        label="APIs that it is",
        rows=2,
        help_text="Identifiers of registered APIs whose tokens it may ask about, one to a line.",
    )
    jwks = KeysField(
        label="Public keys", help_text="A JWK set, for a signed assertion and signed requests. Public keys only."
    )
    request_uris = LinesField(
        label="Addresses of requests",
        rows=2,
        help_text="Where this server may fetch its requests (IRONAUTH_REQUEST_URIS), one to a line.",
    )
    new_id = NewIdField()

    class Meta:
        """Which fields."""

        model = OAuthClient
        fields = "__all__"  # the admin's fieldsets say which
        labels: ClassVar[dict[str, str]] = {
            "strict_scopes": "Strict scopes",
            "id_token_claims": "Claims in the ID token",
            "backchannel_logout_uri": "Back-channel logout URI",
            "initiate_login_uri": "Where a sign-in begins",
            "auth_method": "Proof",
            "administers": "Administers this server",
            "require_pkce": "PKCE is required",
            "require_par": "Requests have to be pushed (PAR)",
            "dpop": "Tokens bound to a key (DPoP)",
            "certificate_bound": "Tokens bound to the certificate",
            "id_token_alg": "Signature algorithm",
            "access_token_alg": "Signature of access tokens",
            "request_object_signing_alg": "Signed requests",
            "tls_client_auth_subject_dn": "Certificate",
            "jwks_uri": "Address of its keys",
            "userinfo_signed_response_alg": "Signed userinfo",
            "logo_uri": "Logo",
            "policy_uri": "Its privacy policy",
            "tos_uri": "Its terms",
            "authorization_signed_response_alg": "Signed answers",
            "subject_type": "Subjects",
            "access_token_s": "Access token",
            "session_idle_s": "Session without use",
            "session_absolute_s": "Session at most",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "What people know the application by.",
            "backchannel_logout_uri": "What this server tells of people who have signed out.",
            "initiate_login_uri": "The application's own address that leads to its sign-in, for invitations.",
            "profile": "The rules that it keeps, and that its requests are judged by.",
            "require_pkce": "Always, but for software that cannot do it: the profile oidc.",
            "id_token_alg": "RS256: every library verifies it. Ed25519 and ES256 are shorter and faster.",
            "access_token_alg": "Ed25519. RS256 or ES256 for an API whose software cannot verify it, as many in Java.",
            "tls_client_auth_subject_dn": "Its subject, for tls_client_auth: CN=bank.example.com,O=Bank.",
            "request_object_signing_alg": "What the application signs its requests by (RFC 9101), with its keys.",
            "authorization_signed_response_alg": "What signs answers where the application asks for signed ones.",
            "jwks_uri": "Where its public keys are, instead of the set above; fetched when they are needed.",
            "userinfo_signed_response_alg": "What signs the answers of userinfo, for software that wants a JWT.",
            "logo_uri": "PNG, JPEG or WebP of at most 64 KiB. People are shown a copy from this site.",
            "policy_uri": "What the application says about people's data; they are shown the link.",
            "tos_uri": "People are shown the link.",
            "sector": "A host name, for pairwise subjects: clients of one sector see the same.",
        }
        widgets: ClassVar[dict[str, forms.Widget]] = {
            "backchannel_logout_uri": forms.TextInput(attrs={"size": 70, "spellcheck": "false"}),
            **{
                name: forms.TextInput(attrs={"size": 70, "spellcheck": "false"})
                for name in ("initiate_login_uri", "jwks_uri", "logo_uri", "policy_uri", "tos_uri")
            },
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        adding = self.instance._state.adding  # noqa: SLF001 - documented by Django
        if adding:
            self.initial.setdefault(NEW_ID, signed_id(new_id()))
            self.initial.setdefault("id_token_alg", ID_TOKEN_ALG)
        given = self.initial.get("scopes", self.instance.scopes) if adding else self.instance.scopes
        self.initial.setdefault("grants", self.instance.grants)
        self.initial["scopes"] = [scope for scope in given if scope in SCOPE_LABELS]
        self.initial[OTHER_SCOPES] = [scope for scope in given if scope not in SCOPE_LABELS]

    def clean(self) -> dict[str, Any]:
        """Judge the client as a whole, every bad field by itself."""
        data = super().clean() or self.cleaned_data
        if "name" in data:
            data["name"] = names.normalise(data["name"])
        if "scopes" in data:
            data["scopes"] = [*data["scopes"], *data.get(OTHER_SCOPES, ())]
        if self.instance._state.adding and data.get(NEW_ID):  # noqa: SLF001 - as above
            self.instance.pk = data[NEW_ID]
        judged = OAuthClient(**self._values(data))
        for field, problems in self._problems(judged).items():
            self.add_error(field, problems)
        for problem in self._problems_elsewhere(judged):
            self.add_error(None, problem)
        return data

    def _values(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the columns of the client as it would be; those that could not be read, or are not shown, as is."""
        return {
            field.name: data.get(field.name, getattr(self.instance, field.name))
            for field in OAuthClient._meta.concrete_fields  # noqa: SLF001 - documented by Django
        }

    def _problems_elsewhere(self, judged: OAuthClient) -> list[ValidationError]:
        """Return what would be wrong with fields of other tabs, and is not yet."""
        if self.instance._state.adding:  # noqa: SLF001 - as above
            return []
        before = {(one.field, one.message) for one in self._all_problems(self.instance)}
        return [
            ValidationError(f"{self._label(one.field)}, on another tab: {one.message} To change both: the tab All.")
            for one in self._all_problems(judged)
            if one.field not in self.fields and (one.field, one.message) not in before
        ]

    @staticmethod
    def _label(field: str) -> str:
        declared = ClientForm.base_fields[field].label if field in ClientForm.base_fields else None
        return str(declared or pretty_name(field))

    def _all_problems(self, client: OAuthClient) -> list[FieldError]:
        return [*client_rules.problems_of(client), *(() if self.may_trust else client_rules.reserved(client))]

    def _problems(self, judged: OAuthClient) -> dict[str, list[ValidationError]]:
        """Return what is wrong with fields that could be read."""
        found: dict[str, list[ValidationError]] = {}
        for one in self._all_problems(judged):
            found.setdefault(one.field, []).append(ValidationError(one.message, code=one.code))
        return {
            field: problems for field, problems in found.items() if field in self.fields and field not in self.errors
        }
