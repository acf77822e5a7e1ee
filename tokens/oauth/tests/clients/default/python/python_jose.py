"""python-jose, which verifies an ID token that requests has fetched."""

import base64
import hashlib
import secrets
from urllib.parse import parse_qs, urlencode, urlsplit

import requests
from conversation import hear, passed, visit
from jose.exceptions import JOSEError

given = hear()
issuer, client_id, client_secret = given["issuer"], given["client_id"], given["client_secret"]

# begin: verify.py
from jose import jwt

metadata = requests.get(f"{issuer}/.well-known/openid-configuration", timeout=10).json()
keys = requests.get(metadata["jwks_uri"], timeout=10).json()["keys"]


def verified(tokens):
    """Return what the ID token says. Raises an error of python-jose when it is not for this client, or not signed."""
    kid = jwt.get_unverified_header(tokens["id_token"])["kid"]
    key = next(key for key in keys if key["kid"] == kid)
    return jwt.decode(
        tokens["id_token"],
        key,
        algorithms=["RS256"],
        audience=client_id,
        issuer=issuer,
        access_token=tokens["access_token"],
    )


# end


def fetched():
    """Return the answer of the token endpoint, for a sign-in by requests."""
    verifier = secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    asked = {
        "client_id": client_id,
        "redirect_uri": given["redirect_uri"],
        "response_type": "code",
        "scope": "openid email",
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    answer = parse_qs(urlsplit(visit(f"{metadata['authorization_endpoint']}?{urlencode(asked)}")).query)
    body = {
        "grant_type": "authorization_code",
        "code": answer["code"][0],
        "redirect_uri": given["redirect_uri"],
        "code_verifier": verifier,
    }
    return requests.post(metadata["token_endpoint"], body, auth=(client_id, client_secret), timeout=10).json()


if __name__ == "__main__":
    tokens = fetched()
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    who = requests.get(metadata["userinfo_endpoint"], headers=bearer, timeout=10).json()
    assert (verified(tokens)["sub"], who["email"]) == (who["sub"], given["email"])
    passed("signed in")
    others = [key for key in keys if key["kid"] != jwt.get_unverified_header(tokens["id_token"])["kid"]]
    refused = 0
    for other in others:
        try:
            jwt.decode(tokens["id_token"], other, algorithms=["RS256"], audience=client_id, issuer=issuer)
        except JOSEError:
            refused += 1
    assert refused == len(others) > 1
    passed("refused: another key")
