"""What clients send, for the API's description; endpoints read it as ``endpoint.unique_parameters`` gives it.

Nothing here judges: an error names one parameter in a sentence, as RFC 6749 §5.2 has it.
"""

from typing import Any

from rest_framework import serializers

from accounts.fields import TextField


def _resources() -> Any:
    return serializers.ListField(
        child=TextField(),
        required=False,
        help_text="Identifiers of the APIs that the access token is for (RFC 8707): the parameter is sent for each.",
    )


def _details() -> Any:
    return TextField(
        required=False, help_text="A JSON array of objects of registered types (RFC 9396), each with its type."
    )


class ClientInput(serializers.Serializer[Any]):
    """How a client says who it is where it does not use HTTP Basic."""

    client_id = TextField(required=False)
    client_secret = TextField(required=False)
    client_assertion_type = TextField(required=False)
    client_assertion = TextField(required=False)


class TokenInput(ClientInput):
    """Form of ``POST /oauth/token``; which parameters a grant takes: RFC 6749 §4.1.3, §4.4.2, §6, RFC 7636 §4.5.

    RFC 8628 §3.4, RFC 8693 §2.1.
    """

    grant_type = TextField()
    code = TextField(required=False)
    redirect_uri = TextField(required=False)
    code_verifier = TextField(required=False)
    refresh_token = TextField(required=False)
    device_code = TextField(required=False)
    subject_token = TextField(required=False)
    subject_token_type = TextField(required=False)
    requested_token_type = TextField(required=False)
    audience = TextField(required=False)
    resource = _resources()
    authorization_details = _details()
    scope = TextField(required=False)
    organization = TextField(
        required=False, help_text="Of a refresh: the id or slug of the organization that the tokens name from now on."
    )


class DeviceInput(ClientInput):
    """Form of ``POST /oauth/device_authorization`` (RFC 8628 §3.1)."""

    scope = TextField(required=False, help_text="It may be left out where authorization_details is sent.")
    resource = _resources()
    authorization_details = _details()


class TokenQuestion(ClientInput):
    """Form of ``POST /oauth/introspect`` and ``/oauth/revoke``; the hint is not needed and ignored."""

    token = TextField()
    token_type_hint = TextField(required=False)


class PushInput(ClientInput):
    """Form of ``POST /oauth/par``: what would else be sent to ``/oauth/authorize`` (OpenID Connect Core §3.1.2.1)."""

    response_type = TextField(required=False)
    redirect_uri = TextField(required=False)
    scope = TextField(required=False)
    resource = _resources()
    authorization_details = _details()
    state = TextField(required=False)
    response_mode = TextField(required=False)
    nonce = TextField(required=False)
    code_challenge = TextField(required=False)
    code_challenge_method = TextField(required=False)
    prompt = TextField(required=False)
    max_age = TextField(required=False)
    login_hint = TextField(required=False)
    id_token_hint = TextField(required=False)
    dpop_jkt = TextField(required=False)
    organization = TextField(
        required=False, help_text="The id or slug of the organization that the person is to act for."
    )
    request = TextField(required=False, help_text="All of this as a signed JWT (RFC 9101).")
