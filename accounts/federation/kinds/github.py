"""GitHub: OAuth 2.0 without ID tokens. ``/user`` has the id, ``/user/emails`` the verified primary address."""

from collections.abc import Mapping
from typing import Any

from accounts.federation.errors import UpstreamRefused
from accounts.federation.kinds.kind import Endpoints, ProviderKind, UpstreamPerson

_DIGITS = 20  # of a 64-bit number


class GitHub(ProviderKind):
    """GitHub accounts."""

    name = "github"
    label = "GitHub"
    issuer = "https://github.com"
    scope = "read:user user:email"
    scope_separator = ","
    verifies_email = True
    asks_anew = False  # it knows neither, and does not say when somebody signed in
    endpoints = Endpoints(
        issuer="https://github.com",
        authorization="https://github.com/login/oauth/authorize",
        token="https://github.com/login/oauth/access_token",  # noqa: S106 - an address
        auth_methods=("client_secret_post",),
    )
    #: What is asked with the access token.
    user_uri = "https://api.github.com/user"
    emails_uri = "https://api.github.com/user/emails"

    def told_elsewhere(self, configured: str, subject: str) -> tuple[str, str] | None:
        """Return issuer and subject of a numeric id; a login, which may become another person's, names nobody."""
        return (self.issuer, subject) if subject.isascii() and subject.isdigit() and len(subject) < _DIGITS else None

    def person(self, claims: Mapping[str, Any]) -> UpstreamPerson:
        """Return the person of ``user`` and ``emails``, the two answers.

        Raises:
            UpstreamRefused: There is no id.
        """
        user, emails = claims["user"], claims["emails"]
        if not isinstance(user, dict) or not isinstance(user.get("id"), int) or isinstance(user["id"], bool):
            raise UpstreamRefused("subject")
        rows = [one for one in emails if isinstance(one, dict)] if isinstance(emails, list) else []
        primary = next((one for one in rows if one.get("primary") is True and one.get("verified") is True), {})
        email = primary.get("email")
        name, login = user.get("name"), user.get("login")
        return UpstreamPerson(
            issuer=self.issuer,
            subject=str(user["id"]),
            email=email if isinstance(email, str) else "",
            email_verified=isinstance(email, str),
            name=name if isinstance(name, str) else "",
            profile={"preferred_username": login} if isinstance(login, str) else {},
        )
