"""What the tests of the token endpoint share: an approval on its way to the client, and the client's requests."""

import base64
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import quote_plus

import httpx

from accounts.users.models import User
from ironauth.infrastructure.core import clock
from tokens.clients.models import OAuthClient
from tokens.oauth import codes
from tokens.oauth.codes import AuthorizationCodeData, challenge_of
from tokens.oauth.tests.material import REDIRECT_URI
from tokens.sessions.models import SSO_CLIENT, Session

TOKEN = "/oauth/token"
INTROSPECT = "/oauth/introspect"
REVOKE = "/oauth/revoke"
VERIFIER = "v" * 43
SCOPE = "email offline_access openid profile"


@dataclass
class Party:
    """A client and its secret, "" for a public one, and how it talks to the server."""

    api: httpx.AsyncClient
    client: OAuthClient
    secret: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def credentials(self) -> dict[str, str]:
        """Return what the body says about the client."""
        return {"client_id": str(self.client.pk), **({"client_secret": self.secret} if self.secret else {})}

    async def post(self, path: str, **parameters: str) -> httpx.Response:
        """Send a form with the client's credentials in it."""
        return await self.api.post(path, data={**self.credentials(), **parameters}, headers=self.headers)

    async def redeem(self, code: str, **changes: str) -> httpx.Response:
        """Exchange a code as `approve` makes it; a change to "" leaves the parameter out."""
        given = {"code": code, "redirect_uri": REDIRECT_URI, "code_verifier": VERIFIER, **changes}
        return await self.post(TOKEN, grant_type="authorization_code", **{k: v for k, v in given.items() if v})

    async def refresh(self, token: str, **parameters: str) -> httpx.Response:
        """Exchange a refresh token."""
        return await self.post(TOKEN, grant_type="refresh_token", refresh_token=token, **parameters)

    async def introspect(self, token: str) -> Any:
        """Return what the server says about a token."""
        answer = await self.post(INTROSPECT, token=token)
        assert answer.status_code == 200, answer.text
        return answer.json()


def approve(client: OAuthClient, user_id: uuid.UUID, *, sso_session: Session | None = None, **changes: Any) -> str:
    """Return a code as the authorization endpoint makes it once the person has agreed."""
    user = User.objects.get(pk=user_id)
    given = {
        "client_id": client.pk,
        "user_id": user_id,
        "epoch": user.session_epoch,
        "scope": SCOPE,
        "redirect_uri": REDIRECT_URI,
        "code_challenge": challenge_of(VERIFIER),
        "nonce": "n-0S6_WzA2Mj",
        "dpop_jkt": "",
        "authenticated_at": clock.now(),
        "amr": "pwd",
        "sso_session_id": sso_session.pk if sso_session else None,
        **changes,
    }
    return codes.issue(AuthorizationCodeData(**given))


def signed_on(user_id: uuid.UUID, **changes: Any) -> Session:
    """Store an SSO session of the person, as the pages open it."""
    now = clock.now()
    given = {
        "user_id": user_id,
        "master_key_id": "k1",
        "client_id": SSO_CLIENT,
        "scope": "",
        "epoch": User.objects.get(pk=user_id).session_epoch,
        "idle_expires_at": now + timedelta(hours=8),
        "absolute_expires_at": now + timedelta(hours=8),
        "ip": "192.0.2.7",
        "user_agent": "Firefox",
        **changes,
    }
    return Session.objects.create(**given)


def basic(client_id: str, secret: str) -> dict[str, str]:
    """Return the header of HTTP Basic as RFC 6749 §2.3.1 has it."""
    joined = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return {"Authorization": f"Basic {base64.b64encode(joined.encode()).decode()}"}
