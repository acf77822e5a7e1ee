"""The experiment about sign-ins with another provider: its verdict, and the provider it starts."""

import base64
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from perf.experiments.upstream.experiment import FORM, LINK, WANTED_MS, finding, found, request_ms, rs256_check_ms
from perf.experiments.upstream.provider import CERTIFICATE, CLIENT_ID, code_of
from perf.rig.processes import StartError
from perf.rig.site_setup import ROOT


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A running provider: its issuer, and the certificate to believe it with."""
    folder = tmp_path_factory.mktemp("provider")
    command = [sys.executable, "-m", "perf.experiments.upstream.provider", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), folder / CERTIFICATE
        process.terminate()


def raw(text: str) -> bytes:
    """Return the bytes of base64url."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize(("over", "kept"), [(0.0, True), (0.01, False)])
def test_the_bound_is_without_the_signature_check(over: float, kept: bool) -> None:
    """Three requests may take as much more than the bound as the check takes, and no more."""
    seen = finding([[1.0, 1.0, WANTED_MS - 2.0 + 0.5 + over]], {"check": 0.5, "request": 1.0}, [9.0])
    assert seen.kept is kept
    assert [row[0] for row in seen.tables[0].rows][-2:] == ["check", "request"]


def test_rounds_are_told_by_their_median() -> None:
    """One slow round changes only the spread."""
    seen = finding([[0.5, 0.5, 1.0], [0.5, 0.5, 1.1], [5.0, 5.0, 5.0]], {"check": 0.0}, [1.0, 3.0, 2.0])
    (check,) = seen.checks
    assert check.measured == pytest.approx(2.1)
    assert [row[1] for row in seen.tables[0].rows[3:5]] == ["2.10 (2.00-15.00)", "2.00"]


def test_the_provider_names_the_person_of_the_code(provider: tuple[str, Path]) -> None:
    """Its document leads to its keys, and its ID token says nonce and subject of the code."""
    issuer, certificate = provider
    with httpx.Client(
        base_url=issuer, verify=ssl.create_default_context(cafile=str(certificate)), timeout=30
    ) as client:
        document = client.get("/.well-known/openid-configuration").json()
        told = client.post(document["token_endpoint"], data={"code": code_of("n-1", "ann")}).json()
        published = client.get(document["jwks_uri"]).json()
    assert document["issuer"] == issuer
    (key,) = published["keys"]
    n, e = (int.from_bytes(raw(key[name])) for name in ("n", "e"))
    signed, _, signature = told["id_token"].rpartition(".")
    rsa.RSAPublicNumbers(e, n).public_key().verify(raw(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    claims = json.loads(raw(signed.partition(".")[2]))
    assert (claims["iss"], claims["aud"], claims["nonce"], claims["sub"]) == (issuer, CLIENT_ID, "n-1", "ann")


def test_what_is_measured_apart(provider: tuple[str, Path]) -> None:
    """The check of a signature, and a request over TLS: each takes this thread some time."""
    issuer, certificate = provider
    assert rs256_check_ms(issuer) > 0
    assert request_ms(issuer, certificate) > 0


def test_another_page_is_an_error() -> None:
    """A page without the form, or the link, ends the experiment."""
    assert found(FORM, b'<input name="request" value="a">') == "a"
    assert found(LINK, b'<a href="https://there">Continue</a>') == "https://there"
    with pytest.raises(StartError):
        found(FORM, b"Too many requests")
