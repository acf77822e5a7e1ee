"""Certificates through the nginx that ships: who shows one at its own host is the client, and nobody by a header."""

import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc.jwk import ECKey

from ironauth import settings_test
from ironauth.tests.deploy.chain import HOST, MTLS, program
from ironauth.tests.services import BinaryMissing
from tokens.clients.certificates.tests.material import certificate, keys_of, pem_of, stored
from tokens.oauth.tests.openid.browser import Browser
from tokens.oauth.tests.openid.relying_party import RelyingParty
from tokens.oauth.tests.openid.site import CALLBACK, Site

pytestmark = [pytest.mark.only_sqlite]
ORIGIN = f"https://{MTLS}"
SELF, CHAIN = "self_signed_tls_client_auth", "tls_client_auth"
GRANT = {"grants": ["client_credentials"], "scopes": ["reports"], "redirect_uris": []}


class MutualSite(Site):
    """The server, with its host for certificates."""

    def __init__(self, folder: Any) -> None:
        super().__init__(folder)
        self._environment |= {"IRONAUTH_MTLS_ORIGIN": ORIGIN, "ALLOWED_HOSTS": f"{HOST},{MTLS}"}

    def post(
        self, host: str, shown: tuple[str, str] | None, client_id: str, headers: dict[str, str] | None = None
    ) -> int:
        """Ask for a token at a host of nginx; return the status."""
        given = {"grant_type": "client_credentials", "client_id": client_id}
        return self.ask(host, shown, "POST", "/oauth/token", headers=headers, form=given).status_code

    def ask(
        self,
        host: str,
        shown: tuple[str, str] | None,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        form: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request to a host of nginx. ``shown``: files of certificate and key."""
        context: ssl.SSLContext = self.trust()
        if shown is not None:
            context.load_cert_chain(*shown)
        with httpx.Client(verify=context, timeout=30) as client:
            request = client.build_request(
                method,
                f"https://127.0.0.1:{self.https}{path}",
                data=form,
                headers={"Host": host, **(headers or {})},
            )
            request.extensions["sni_hostname"] = host
            return client.send(request)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MutualSite]:
    """Nginx and the server, started once."""
    try:
        program("nginx", "nginx-light")
    except BinaryMissing as missing:
        pytest.skip(str(missing))
    folder = settings_test.RUN_FOLDER / "mtls"
    folder.mkdir(mode=0o711)
    made = MutualSite(folder)
    try:
        made.start()
        yield made
    finally:
        made.close_clients()
        made.close()


def test_a_certificate_of_its_own_key(site: MutualSite) -> None:
    """At the host for certificates, by the key; at the other host nobody is asked, and headers do not arrive."""
    key, other = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")
    made = certificate(key)
    right = stored(site.folder / "right", made, key.private_key)
    wrong = stored(site.folder / "wrong", certificate(other), other.private_key)
    client_id = site.make_client(auth_method=SELF, jwks=keys_of(key), **GRANT)["client_id"]
    forged = {"X-SSL-Client-Cert": pem_of(made), "X-SSL-Client-Verify": "SUCCESS", "X_SSL_Client_Cert": pem_of(made)}
    assert site.post(MTLS, right, client_id) == 200
    assert site.post(MTLS, wrong, client_id) == 401
    assert site.post(MTLS, None, client_id) == 401
    assert site.post(MTLS, wrong, client_id, forged) == 401
    assert site.post(MTLS, None, client_id, forged) == 401
    assert site.post(HOST, right, client_id) == 401
    assert site.post(HOST, None, client_id, forged) == 401


def test_a_certificate_of_an_authority(site: MutualSite) -> None:
    """What an authority of nginx has signed, for the registered subject; signed by another it does not count."""
    client_id = site.make_client(auth_method=CHAIN, tls_client_auth_subject_dn="CN=bank.example.com", **GRANT)[
        "client_id"
    ]
    key = ec.generate_private_key(ec.SECP256R1())
    made = site.authority.certify_client("bank.example.com", key)
    right = stored(site.folder / "chained", made, key)
    wrong = stored(site.folder / "namesake", site.authority.certify_client("shop.example.com", key), key)
    own = ECKey.generate_key("P-256")
    alone = stored(site.folder / "alone", certificate(own, "CN=bank.example.com"), own.private_key)
    forged = {"X-SSL-Client-Cert": pem_of(made), "X-SSL-Client-Verify": "SUCCESS", "X_SSL_Client_Verify": "SUCCESS"}
    assert site.post(MTLS, right, client_id) == 200
    assert site.post(MTLS, wrong, client_id) == 401
    assert site.post(MTLS, alone, client_id) == 401
    assert site.post(MTLS, alone, client_id, forged) == 401
    assert site.post(MTLS, None, client_id, forged) == 401
    assert site.post(HOST, None, client_id, forged) == 401


def test_a_token_that_is_bound(site: MutualSite) -> None:
    """It is good at the host for certificates with its own, and nowhere with another, none, or a header alone."""
    key, other = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")
    made = certificate(key)
    right = stored(site.folder / "bound", made, key.private_key)
    wrong = stored(site.folder / "thief", certificate(other), other.private_key)
    party = RelyingParty(site, profile="oidc", certificate_bound=True, dpop="off")
    code = party.authorize(Browser(site), party.request())
    given = {
        "grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK,
        "client_id": party.client_id, "client_secret": party.secret,
    }  # fmt: skip
    forged = {"X-SSL-Client-Cert": pem_of(made), "X-SSL-Client-Verify": "SUCCESS", "X_SSL_Client_Cert": pem_of(made)}
    for host, shown in ((HOST, right), (HOST, None), (MTLS, None)):  # refused before the code is used
        assert site.ask(host, shown, "POST", "/oauth/token", forged, given).status_code == 400
    tokens = site.ask(MTLS, right, "POST", "/oauth/token", form=given).json()
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    for path, good in (("/api/v1/access/verify", 204), ("/oauth/userinfo", 200)):
        for host, shown, headers, status in (
            (MTLS, right, {}, good), (MTLS, wrong, {}, 401), (MTLS, None, {}, 401), (MTLS, right, {}, good),
            (MTLS, None, forged, 401), (MTLS, wrong, forged, 401), (HOST, right, {}, 401), (HOST, None, forged, 401),
        ):  # fmt: skip
            answer = site.ask(host, shown, "GET", path, {**bearer, **headers})
            assert answer.status_code == status, (path, host, shown, headers, answer.text)


def test_only_what_clients_post_is_there(site: MutualSite) -> None:
    """The host for certificates has no pages: people are never asked for one."""
    with site.client(MTLS) as client:
        assert client.get("/account/signin").status_code == 404
        assert client.get("/admin/").status_code == 404
