"""Apple: the answer comes by POST, the name once and beside the token, and the client secret is signed each time.

The stored secret is the team ID, the key ID and the key of the .p8 file, with a space between them.
"""

from collections.abc import Mapping
from typing import Any

from accounts.federation.kinds.kind import ProviderKind, UpstreamPerson


class Apple(ProviderKind):
    """Sign in with Apple."""

    name = "apple"
    label = "Apple"
    issuer = "https://appleid.apple.com"
    scope = "openid email name"
    verifies_email = True
    asks_anew = False  # it knows neither
    asks_userinfo = False  # there is none
    signs_secret = True
    parameters = {"response_mode": "form_post"}  # Apple asks for it where a name or an address is wanted

    def person(self, claims: Mapping[str, Any]) -> UpstreamPerson:
        """Return the person; Apple writes ``email_verified`` as a string, and a name only the first time."""
        verified = claims.get("email_verified") in (True, "true")
        parts = _names(claims.get("user"))
        profile = {field: part for field, part in zip(("given_name", "family_name"), parts, strict=True) if part}
        name = " ".join(filter(None, parts))
        return super().person(claims)._replace(email_verified=verified, name=name, profile=profile)


def _names(user: Any) -> tuple[str, str]:
    """Return first and last name of what comes beside the token: the browser brings it, so it is only ever shown."""
    name = user.get("name") if isinstance(user, dict) else None
    first, last = (name.get("firstName"), name.get("lastName")) if isinstance(name, dict) else ("", "")
    return first if isinstance(first, str) else "", last if isinstance(last, str) else ""
