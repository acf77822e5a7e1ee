"""The TLS of the nginx that ships, as BCP 195 and FAPI 2.0 §5.2.1 want it."""

import socket
import ssl
from typing import Final

from ironauth.tests.deploy.chain import HOST
from tokens.oauth.tests.openid.site import Site

#: RFC 8446 §9.1; each of them is recommended by BCP 195 (RFC 9325 §4.2.1).
SUITES: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})


def check(site: Site) -> None:
    """Check that TLS 1.3 is spoken with a good suite, and nothing older than 1.2: here 1.2 is not spoken either."""
    version, suite = _spoken(site, ssl.TLSVersion.TLSv1_3)
    assert version == "TLSv1.3"
    assert suite in SUITES
    assert _spoken(site, ssl.TLSVersion.TLSv1_2) == ("", "")


def _spoken(site: Site, newest: ssl.TLSVersion) -> tuple[str, str]:
    """Return the version and the cipher suite that are agreed on with who speaks no newer one; "" for none."""
    context = site.trust(maximum_version=newest)
    with socket.create_connection(("127.0.0.1", site.https), timeout=10) as connection:
        try:
            with context.wrap_socket(connection, server_hostname=HOST) as tls:
                agreed = tls.cipher()
                return tls.version() or "", agreed[0] if agreed else ""
        except ssl.SSLError:
            return "", ""
