"""A client of the profile fapi2 whose tokens are bound to the certificate of its connections (RFC 8705)."""

import secrets
from typing import Any, Final

import httpx
from joserfc.jwk import ECKey

from tokens.clients.certificates.tests.material import certificate, stored
from tokens.oauth.tests.openid.fapi2_client import Fapi2Client
from tokens.oauth.tests.openid.site import Site

BY_NAME: Final = "tls_client_auth"


class CertifiedClient(Fapi2Client):
    """A client that shows a certificate at the host for it.

    Attributes:
        known: Whether the certificate proves who it is, too; else an assertion does.
        plain: An HTTP client that shows none.
    """

    token_type = "bearer"

    def __init__(self, site: Site, *, known: bool, **fields: Any) -> None:
        self.known = known
        name = f"{secrets.token_hex(4)}.bank.example.com"
        key = ECKey.generate_key("P-256")
        assert key.private_key is not None
        if known:
            made = site.authority.certify_client(name, key.private_key)
            fields |= {"auth_method": BY_NAME, "tls_client_auth_subject_dn": f"CN={name}", "jwks": None}
        else:
            made = certificate(key, f"CN={name}")
        super().__init__(site, certificate_bound=True, dpop="off", **fields)
        self.plain = self.http
        self.http = site.new_http(stored(site.folder / name, made, key.private_key))

    def path(self, member: str) -> str:
        """Return an address that the metadata names, that for certificates where there is one (RFC 8705 §5)."""
        aliases: dict[str, str] = self.metadata["mtls_endpoint_aliases"]
        return aliases.get(member) or super().path(member)

    def authenticated(self, **changes: Any) -> dict[str, str]:
        """Return what a request has in its body to prove the client, or to say which it is."""
        return {"client_id": self.client_id} if self.known else super().authenticated(**changes)

    def proven(self, method: str, path: str, **_changes: Any) -> str:
        """Return no proof: the connection is one."""
        return ""

    def ask(self, said: dict[str, Any], method: str = "GET") -> httpx.Response:
        """Ask userinfo with the bound token."""
        return self.ask_with(said, scheme="Bearer", method=method)

    def by(self, http: httpx.Client, **parameters: str) -> httpx.Response:
        """Ask the token endpoint by a connection."""
        return http.post(self.path("token_endpoint"), data={**parameters, **self.authenticated()})
