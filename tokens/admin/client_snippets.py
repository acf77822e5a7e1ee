"""What an application needs to sign people in here, ready to be copied: addresses, a first request, configurations."""

import base64
import hashlib
import json
import secrets
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from django.conf import settings

from tokens.clients.models import CERTIFICATES, OAuthClient
from tokens.oauth.token.exchange import ACCESS_TOKEN
from tokens.protocol import GrantType, Scope

SECRET: Final = "$CLIENT_SECRET"  # noqa: S105 - the name of a variable: nobody can read the secret here


class Sample(NamedTuple):
    """A configuration under the name of what it is for."""

    title: str
    text: str


class Snippets(NamedTuple):
    """What a client's page shows. ``start``: a link that begins the flow, "" for a client without it."""

    issuer: str
    discovery: str
    client_id: str
    redirect_uri: str
    scope: str
    start: str
    samples: Sequence[Sample]


def snippets(client: OAuthClient) -> Snippets:
    """Return how to use ``client``; each time with another PKCE pair, the verifier in the request for tokens."""
    issuer, client_id = settings.IRONAUTH_ISSUER, str(client.pk)
    redirect_uri = client.redirect_uris[0] if client.redirect_uris else ""
    scope = " ".join(client.scopes)
    verifier = secrets.token_urlsafe(32)
    discovery = f"{issuer}/.well-known/openid-configuration"
    starts = GrantType.AUTHORIZATION_CODE in client.grants and not client.require_par
    start = _start(issuer, client_id, redirect_uri, scope, verifier) if starts else ""
    samples = [Sample("curl", _curl(client, issuer, redirect_uri, verifier, scope))]
    if GrantType.AUTHORIZATION_CODE in client.grants:
        samples += [
            Sample("openid-client (JavaScript)", _openid_client(client, issuer, redirect_uri, scope)),
            *_for_plain(client, issuer, discovery, redirect_uri, scope),
        ]
    return Snippets(issuer, discovery, client_id, redirect_uri, scope, start, samples)


def _start(issuer: str, client_id: str, redirect_uri: str, scope: str, verifier: str) -> str:
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "scope": scope,
        "state": secrets.token_urlsafe(8),
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"{issuer}/oauth/authorize?{urlencode(query)}"


def _curl(client: OAuthClient, issuer: str, redirect_uri: str, verifier: str, scope: str) -> str:
    """Return the request that gives tokens: for a code, for a device, or for the client itself."""
    proof = {
        OAuthClient.AuthMethod.SECRET: f'-u "{client.pk}:{SECRET}"',
        OAuthClient.AuthMethod.NONE: f"-d client_id={client.pk}",
        OAuthClient.AuthMethod.PRIVATE_KEY_JWT: (
            "-d client_assertion_type=urn:ietf:params:oauth:client-assertion-type:jwt-bearer \\\n"
            '  -d client_assertion="$CLIENT_ASSERTION"'
        ),
        **dict.fromkeys(CERTIFICATES, f"--cert client.pem --key client.key -d client_id={client.pk}"),
    }[OAuthClient.AuthMethod(client.auth_method)]
    bound = ' -H "DPoP: $DPOP_PROOF"' if client.dpop == OAuthClient.Policy.REQUIRED else ""
    if client.certificate_bound and not client.shows_certificate:
        proof = f"--cert client.pem --key client.key {proof}"
    if client.certificate_bound or client.shows_certificate:
        issuer = settings.IRONAUTH_MTLS_ORIGIN
    begin = f"curl {issuer}/oauth/token{bound} {proof} \\\n"
    if GrantType.AUTHORIZATION_CODE in client.grants:
        where = shlex.quote(f"redirect_uri={redirect_uri}")
        return (
            f'{begin}  -d grant_type=authorization_code -d code="$CODE" \\\n'
            f"  --data-urlencode {where} -d code_verifier={verifier}"
        )
    if GrantType.DEVICE_CODE in client.grants:
        begin = f"curl {issuer}/oauth/device_authorization {proof} \\\n"
        return f"{begin}  --data-urlencode {shlex.quote(f'scope={scope}')}"
    if GrantType.CLIENT_CREDENTIALS in client.grants:
        own = " ".join(one for one in client.scopes if one not in frozenset(Scope))
        wanted = f" --data-urlencode {shlex.quote(f'scope={own}')}" if own else ""
        return f"{begin}  -d grant_type=client_credentials{wanted}"
    return (
        f"{begin}  -d grant_type={GrantType.TOKEN_EXCHANGE.value} \\\n"
        f'  -d subject_token="$TOKEN" -d subject_token_type={ACCESS_TOKEN}'
    )


def _openid_client(client: OAuthClient, issuer: str, redirect_uri: str, scope: str) -> str:
    proof = {
        OAuthClient.AuthMethod.SECRET: "process.env.CLIENT_SECRET",
        OAuthClient.AuthMethod.NONE: "undefined, client.None()",
        OAuthClient.AuthMethod.PRIVATE_KEY_JWT: "undefined, client.PrivateKeyJwt(privateKey)",
        **dict.fromkeys(CERTIFICATES, "{ use_mtls_endpoint_aliases: true }, client.TlsClientAuth()"),
    }[OAuthClient.AuthMethod(client.auth_method)]
    if issuer.startswith("http:"):  # a server in development, which the library would not talk to
        proof += ", undefined" * (client.auth_method == OAuthClient.AuthMethod.SECRET)
        proof += ", {\n  execute: [client.allowInsecureRequests],\n}"
    wanted = f"redirect_uri: {json.dumps(redirect_uri)}, scope: {json.dumps(scope)}"
    build = "await client.buildAuthorizationUrlWithPAR" if client.require_par else "client.buildAuthorizationUrl"
    return (
        'import * as client from "openid-client";\n'
        f'const config = await client.discovery(new URL("{issuer}"), "{client.pk}", {proof});\n'
        "const verifier = client.randomPKCECodeVerifier();\n"
        f"const url = {build}(config, {{\n"
        f"  {wanted},\n"
        "  code_challenge: await client.calculatePKCECodeChallenge(verifier),\n"
        '  code_challenge_method: "S256",\n'
        "});"
    )


def _authlib(client: OAuthClient, discovery: str, scope: str) -> str:
    public = client.auth_method == OAuthClient.AuthMethod.NONE
    settings_of_it = {"scope": scope, "code_challenge_method": "S256"}
    settings_of_it |= {"token_endpoint_auth_method": "none"} if public else {}
    secret = "" if public else '    client_secret=os.environ["CLIENT_SECRET"],\n'
    return (
        "oauth.register(\n"
        '    "ironauth",\n'
        f'    client_id="{client.pk}",\n{secret}'
        f'    server_metadata_url="{discovery}",\n'
        f"    client_kwargs={json.dumps(settings_of_it)},\n"
        ")"
    )


def _for_plain(client: OAuthClient, issuer: str, discovery: str, redirect_uri: str, scope: str) -> list[Sample]:
    """Return the configurations of programs that push no requests and prove no keys; all but one need a secret."""
    by_key = client.auth_method == OAuthClient.AuthMethod.PRIVATE_KEY_JWT or client.shows_certificate
    if by_key or client.require_par or client.dpop == OAuthClient.Policy.REQUIRED:
        return []
    authlib = Sample("Authlib (Python)", _authlib(client, discovery, scope))
    if client.auth_method != OAuthClient.AuthMethod.SECRET:
        return [authlib]
    spring = "spring.security.oauth2.client"
    lines = (
        f"{spring}.registration.ironauth.client-id={client.pk}",
        f"{spring}.registration.ironauth.client-secret=${{CLIENT_SECRET}}",
        f"{spring}.registration.ironauth.scope={','.join(client.scopes)}",
        f"{spring}.provider.ironauth.issuer-uri={issuer}",
    )
    proxy = (
        f"oauth2-proxy --provider=oidc --oidc-issuer-url={issuer} \\\n"
        f'  --client-id={client.pk} --client-secret="{SECRET}" \\\n'
        f"  --redirect-url={shlex.quote(redirect_uri)} --scope={shlex.quote(scope)} \\\n"
        "  --code-challenge-method=S256 --cookie-secret=$(openssl rand -hex 16) \\\n"
        "  --email-domain='*' --upstream=http://127.0.0.1:3000"
    )
    java = "Spring Boot (ID tokens by ES256 or RS256)"
    return [authlib, Sample("oauth2-proxy", proxy), Sample(java, "\n".join(lines))]
