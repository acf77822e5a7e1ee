"""The certificate of a client's TLS connection (RFC 8705), as the proxy in front of this server tells it.

nginx ends TLS. It writes the certificate and what it made of it into two headers. They count where
IRONAUTH_MTLS_ORIGIN is set, and from IRONAUTH_TRUSTED_PROXIES alone. A header that came twice, or that is not one
certificate in PEM, is none: nobody is anybody by it.
"""

import base64
import re
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import unquote

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.http import HttpRequest

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import came_by_proxy
from tokens.clients import assertion
from tokens.clients.errors import InvalidRequest
from tokens.clients.models import OAuthClient
from tokens.clients.registry import Client
from tokens.errors import UncertifiedToken

#: nginx' ``$ssl_client_escaped_cert`` (PEM, percent-encoded) and ``$ssl_client_verify``.
HEADER: Final = "HTTP_X_SSL_CLIENT_CERT"
VERDICT: Final = "HTTP_X_SSL_CLIENT_VERIFY"
#: What nginx says of a certificate whose chain ends at an authority of its own.
CHAINED: Final = "SUCCESS"
MAX_CHARACTERS: Final = 8_192  # of the header; of an RSA key of 4,096 bits with its escapes there are 3,000
_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+-----END CERTIFICATE-----\n?")


class Presented(NamedTuple):
    """A certificate in force whose key the client has proved. ``chained``: an authority that nginx knows signed it."""

    certificate: x509.Certificate
    chained: bool


def presented(request: HttpRequest) -> Presented | None:
    """Return the certificate of the request's connection, None without one that may be believed.

    Args:
        request: The request, with the headers of the proxy.
    """
    text = request.META.get(HEADER, "")
    if not settings.IRONAUTH_MTLS_ORIGIN or not text or len(text) > MAX_CHARACTERS or not came_by_proxy(request):
        return None
    pem = unquote(text)
    if _PEM.fullmatch(pem) is None:
        return None
    with suppress(ValueError, UnsupportedAlgorithm):
        certificate = x509.load_pem_x509_certificate(pem.encode())
        if certificate.not_valid_before_utc <= clock.now() < certificate.not_valid_after_utc:
            return Presented(certificate, request.META.get(VERDICT) == CHAINED)
    return None


def cause_to_refuse(client: Client, request: HttpRequest) -> str:
    """Return why the connection does not prove the client, in one word for the log; "" when it does.

    Args:
        client: A client that proves who it is by a certificate.
        request: The request.
    """
    found = presented(request)
    if found is None:
        return "certificate"
    if client.auth_method == OAuthClient.AuthMethod.TLS:
        return "" if found.chained and _is_of(found.certificate, client.tls_client_auth_subject_dn) else "subject"
    return "" if _has_key_of(found.certificate, client) else "key"


def thumbprint_of(request: HttpRequest) -> str:
    """Return what a token calls the certificate of the request's connection (RFC 8705 §3.1); "" without one.

    Args:
        request: The request, with the headers of the proxy.
    """
    found = presented(request)
    if found is None:
        return ""
    return base64.urlsafe_b64encode(found.certificate.fingerprint(SHA256())).rstrip(b"=").decode()


def binding(request: HttpRequest, client: Client, *, required: bool = True) -> str:
    """Return the thumbprint of the certificate that tokens given now are bound to; "" where the client wants none.

    Args:
        request: The client's request.
        client: Its setting decides; a certificate of another client is not looked at.
        required: Whether a missing one is refused here.

    Raises:
        InvalidRequest: (400) there is no certificate, and the client's tokens are bound to one.
    """
    if not client.certificate_bound:
        return ""
    thumbprint = thumbprint_of(request)
    if required and not thumbprint:
        raise InvalidRequest("This client's tokens are bound to its certificate, and none was shown (RFC 8705).")
    return thumbprint


def require_shown(request: HttpRequest | None, thumbprint: str) -> None:
    """Judge a request with a token that is bound to a certificate.

    Args:
        request: The request; None where there is none that can show one.
        thumbprint: Of the certificate.

    Raises:
        UncertifiedToken: (401) the certificate of its connection is another one, or none.
    """
    if request is None or thumbprint_of(request) != thumbprint:
        raise UncertifiedToken("certificate")


def subject_of(text: str) -> x509.Name | None:
    """Return the name that a text spells (RFC 4514); None where it spells none.

    Args:
        text: For instance ``CN=bank.example.com,O=Bank,C=DE``.
    """
    try:
        return x509.Name.from_rfc4514_string(text) or None
    except ValueError:
        return None


def _is_of(certificate: x509.Certificate, text: str) -> bool:
    """Return whether the subject is this one, part by part (RFC 8705 §2.1.2)."""
    wanted = subject_of(text)
    with suppress(ValueError):
        return wanted is not None and certificate.subject == wanted
    return False


def _has_key_of(certificate: x509.Certificate, client: Client) -> bool:
    """Return whether the certificate is of one of the client's registered keys (RFC 8705 §2.2).

    Who signed it does not count: the key does, which the connection has proved.
    """
    with suppress(ValueError, UnsupportedAlgorithm):
        shown = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return client.jwks is not None and any(
            assertion.public_key(key).as_der(private=False) == shown for key in client.jwks["keys"]
        )
    return False
