"""The client of a site made for measuring, as an operator makes it, and what it knows of its server."""

import base64
import json
import urllib.request
from collections.abc import Mapping

from perf.load.oauth_messages import REDIRECT_URI, Application
from perf.rig.site_setup import prepare

FETCH_S = 5.0


def make_client(environment: Mapping[str, str]) -> dict[str, str]:
    """Make the client as an operator does, and return what the command prints; people need not consent to it.

    Raises:
        StartError: the command failed.
    """
    command = [
        "manage.py",
        "oauth_client",
        "create",
        "--name",
        "Benchmark",
        "--trusted",
        "--redirect-uri",
        REDIRECT_URI,
    ]
    made: dict[str, str] = json.loads(prepare(command, environment))
    return made


def application_of(host: str, issuer: str, client: Mapping[str, str]) -> Application:
    """Return what the client knows once it has read the server's keys. Raises ``OSError`` where there is none."""
    with urllib.request.urlopen(f"http://{host}/.well-known/jwks.json", timeout=FETCH_S) as answer:
        published = json.load(answer)["keys"]
    keys = {one["kid"]: base64.urlsafe_b64decode(one["x"] + "=") for one in published if one["kty"] == "OKP"}
    return Application(client["client_id"], client["client_secret"], issuer, keys)
