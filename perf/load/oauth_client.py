"""The client of a site made for measuring, as an operator makes it, and what it knows of its server."""

import base64
import json
import subprocess
import sys
import urllib.request
from collections.abc import Mapping

from perf.load.oauth_messages import REDIRECT_URI, Application
from perf.rig.processes import StartError
from perf.rig.site_setup import ROOT, SET_UP_S

FETCH_S = 5.0


def make_client(environment: Mapping[str, str]) -> dict[str, str]:
    """Make the client as an operator does, and return what the command prints; people need not consent to it.

    Raises:
        StartError: the command failed.
    """
    command = [sys.executable, "manage.py", "oauth_client", "create", "--name", "Benchmark", "--trusted"]
    done = subprocess.run(
        [*command, "--redirect-uri", REDIRECT_URI],
        cwd=ROOT, env=dict(environment), capture_output=True, text=True, timeout=SET_UP_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise StartError(f"the client could not be made:\n{done.stderr}")
    made: dict[str, str] = json.loads(done.stdout)
    return made


def application_of(host: str, issuer: str, client: Mapping[str, str]) -> Application:
    """Return what the client knows once it has read the server's keys. Raises ``OSError`` where there is none."""
    with urllib.request.urlopen(f"http://{host}/.well-known/jwks.json", timeout=FETCH_S) as answer:
        published = json.load(answer)["keys"]
    keys = {one["kid"]: base64.urlsafe_b64decode(one["x"] + "=") for one in published if one["kty"] == "OKP"}
    return Application(client["client_id"], client["client_secret"], issuer, keys)
