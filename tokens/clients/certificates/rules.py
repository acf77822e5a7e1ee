"""What may be said of a client's certificate: that somebody can show it here, and that it is known whose it is."""

from collections.abc import Iterable
from typing import Final

from django.conf import settings

from ironauth.infrastructure.core.errors import FieldError
from tokens.clients.certificates.presented import subject_of
from tokens.clients.models import DN_CHARACTERS, OAuthClient

_UNREACHED: Final = "No certificates reach this server: set IRONAUTH_MTLS_ORIGIN, or choose another."


def problems_of(client: OAuthClient) -> Iterable[FieldError]:
    """Yield what is wrong with how a client shows a certificate, and what its tokens are bound to.

    Args:
        client: The client as it would be.
    """
    field, text = "tls_client_auth_subject_dn", client.tls_client_auth_subject_dn
    if client.shows_certificate and not settings.IRONAUTH_MTLS_ORIGIN:
        yield FieldError(field="auth_method", code="no_mtls", message=_UNREACHED)
    by_name = client.auth_method == OAuthClient.AuthMethod.TLS
    if by_name and (len(text) > DN_CHARACTERS or subject_of(text) is None):
        words = "tls_client_auth needs its certificate's subject (RFC 4514): write CN=bank.example.com."
        yield FieldError(field=field, code="subject", message=words)
    elif text and not by_name:
        words = "A subject is for tls_client_auth: choose it, or leave the subject out."
        yield FieldError(field=field, code="needless", message=words)
    if client.certificate_bound and not settings.IRONAUTH_MTLS_ORIGIN:
        words = "No certificates reach this server: set IRONAUTH_MTLS_ORIGIN, or leave this out."
        yield FieldError(field="certificate_bound", code="no_mtls", message=words)
    if client.certificate_bound and client.dpop != OAuthClient.Policy.OFF:
        words = "Tokens are bound to a certificate or to a key, not to both: turn DPoP off, or leave this out."
        yield FieldError(field="certificate_bound", code="two_bindings", message=words)
