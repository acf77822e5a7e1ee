"""Back-channel logout: the server tells a client that a session has ended."""

import queue
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import KeySet

from tokens.oauth.tests.openid.plans.rp_logout import GONE, Visit
from tokens.oauth.tests.openid.registry import Modules, Plan, Trial
from tokens.oauth.tests.openid.site import ISSUER, Site

MODULES: Final = Modules()
PLAN: Final = Plan("oidcc-backchannel-rp-initiated-logout-certification-test-plan", "Back-Channel Logout", (MODULES,))
EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
ARRIVES_S: Final = 60.0


@MODULES.add(
    "oidcc-backchannel-logout-discovery-endpoint-verification",
    "The metadata says that clients are told, and of which session.",
)
def discovery(trial: Trial) -> None:
    """Both, and where to sign out."""
    said = trial.client().metadata
    assert said["backchannel_logout_supported"] is True
    assert said["backchannel_logout_session_supported"] is True
    assert said["end_session_endpoint"].startswith(f"{ISSUER}/")


@MODULES.add(
    "oidcc-backchannel-rp-initiated-logout",
    "The client gets a signed logout token with sub, sid and the event; prompt=none fails afterwards.",
)
def logout(trial: Trial) -> None:
    """By https, to a server of the client."""
    with _application(trial.site) as (address, arrived):
        visit = Visit(trial, backchannel_logout_uri=address)
        page = visit.sign_out(id_token_hint=visit.said["id_token"], post_logout_redirect_uri=GONE, state="st-1")
        kind, body = arrived.get(timeout=ARRIVES_S)
    assert kind == "application/x-www-form-urlencoded"
    ((name, (token,)),) = parse_qs(body, strict_parsing=True).items()
    assert name == "logout_token"
    keys = KeySet.import_key_set(visit.client.http.get(visit.client.path("jwks_uri")).json())
    told = jwt.decode(token, keys, algorithms=[visit.client.id_token_alg])
    assert told.header["typ"] == "logout+jwt"
    claims, known = told.claims, visit.said["claims"]
    assert claims["iss"] == ISSUER
    assert claims["aud"] in (visit.client.client_id, [visit.client.client_id])
    assert (claims["sub"], claims["sid"]) == (known["sub"], known["sid"])
    assert claims["events"] == {EVENT: {}}
    assert claims["jti"]
    assert abs(claims["iat"] - time.time()) < ARRIVES_S
    assert time.time() < claims["exp"] <= claims["iat"] + 120
    assert "nonce" not in claims
    visit.is_led(page, "st-1")


@contextmanager
def _application(site: Site) -> Iterator[tuple[str, "queue.Queue[tuple[str, str]]"]]:
    """Run a client's server; its address, and what arrives: content type and body."""
    arrived: queue.Queue[tuple[str, str]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            arrived.put((self.headers["Content-Type"], body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*site.application_files)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}/logout", arrived
        finally:
            server.shutdown()
            thread.join()
