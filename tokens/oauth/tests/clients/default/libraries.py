"""The libraries that sign in with the default client, and their programs."""

import json
import re
import textwrap
from pathlib import Path
from typing import Final, NamedTuple

from tokens.oauth.tests.clients.default import ran

HERE: Final = Path(__file__).resolve().parent
CLIENTS: Final = HERE.parent
SITE: Final = "https://app.example.com"
FLAGS: Final = re.MULTILINE | re.DOTALL
#: What a program's user writes: the lines between the two comments.
LINES: Final = re.compile(r"^[ \t]*(?:#|//) begin: (?P<file>\S+)\n(?P<text>.*?)^[ \t]*(?:#|//) end$", FLAGS)
PKCE: Final = "PKCE is off unless asked for, and clients here need it"
REFUSED: Final = "refused: another algorithm"
#: What a library may do, as its program says it.
SIGNED_IN: Final = "signed in"
REFRESHED: Final = "refreshed"
REVOKED: Final = "revoked"
SIGNED_OUT: Final = "signed out"
TOLD: Final = "told of a sign-out"
WITHOUT_PKCE: Final = "signed in without PKCE"


class Library(NamedTuple):
    """A library.

    Attributes:
        name: What people call it.
        package: Its name where it is published.
        language: Of its lines.
        program: Which has its lines, below ``clients/``.
        pins: The file with its version, below ``clients/``; "" for a package of Debian, of which any version may run.
        option: What it has to be told.
        reason: Why.
        callback: Where it is answered at.
        public: Whether its client has no secret; of which kind of the admin's then.
        refused: The step that it refuses.
        more: What it does apart from signing in, which ``make clients`` tries.
        apart: Whether ``make clients`` alone tries it.
    """

    name: str
    package: str
    language: str
    program: str
    pins: str
    option: str = "none"
    reason: str = ""
    callback: str = "/callback"
    public: str = ""
    refused: str = REFUSED
    more: tuple[str, ...] = ()
    apart: bool = False

    @property
    def steps(self) -> list[str]:
        """What has to pass in ``make clients``."""
        return sorted([SIGNED_IN, self.refused, *self.more, *([WITHOUT_PKCE] if self.may_be_plain else [])])

    @property
    def may_be_plain(self) -> bool:
        """Whether it sends PKCE only when it is told to: then a client of the profile ``oidc`` is tried without."""
        return self.reason.startswith(PKCE)

    @property
    def redirect_uri(self) -> str:
        """Where the library is answered at."""
        return SITE + self.callback

    @property
    def source(self) -> Path:
        """Its program."""
        return CLIENTS / self.program

    @property
    def version(self) -> str:
        """Its version, by the file that pins it. Raises ``ValueError`` when it is not pinned."""
        if not self.pins:
            return str(ran.kept()[self.name]["version"])
        text = (CLIENTS / self.pins).read_text(encoding="utf-8")
        if self.language == "js":
            return str(json.loads(text)["packages"][f"node_modules/{self.package}"]["version"])
        name = re.escape(self.package)
        form = {
            "go": rf"^\s*(?:require )?{name} v(\S+)",
            "java": rf"^[0-9a-f]{{64}}  {name}-(\d\S*)\.[ja]ar$",
        }.get(self.language, rf"^{name}==([^\s;]+)")
        (version,) = re.findall(form, text, re.MULTILINE)
        return str(version)

    @property
    def lines(self) -> str:
        """What its user writes, as a block of the page."""
        found = LINES.search(self.source.read_text(encoding="utf-8"))
        if found is None:
            raise ValueError(f"{self.program} does not say what its user writes")
        comment = "//" if self.language in ("js", "go", "java") else "#"
        text = textwrap.dedent(found["text"]).expandtabs(4).strip("\n")
        return f"```{self.language}\n{comment} {found['file']}\n{text}\n```"


_LOCK: Final = "javascript/package-lock.json"
_OWN: Final = "default/python/requirements.txt"

_PARTIES: Final = "parties/javascript/package-lock.json"

LIBRARIES: Final = (
    Library(
        "Authlib", "authlib", "python", "default/python/authlib_site.py", _OWN,
        "`code_challenge_method`", PKCE, more=(REFRESHED, REVOKED, SIGNED_OUT),
    ),
    Library(
        "django-allauth", "django-allauth", "python", "default/python/django_allauth_site.py", _OWN,
        "`OAUTH_PKCE_ENABLED`", PKCE, "/accounts/oidc/ironauth/login/callback/",
        refused="refused: another browser's answer",
    ),
    Library(
        "mozilla-django-oidc", "mozilla-django-oidc", "python", "default/python/mozilla_django_oidc_site.py", _OWN,
        "`OIDC_USE_PKCE`, `OIDC_RP_SIGN_ALGO`, the addresses",
        f"{PKCE}; it expects HS256 else; it reads no discovery document",
        "/oidc/callback/",
    ),
    Library(
        "social-auth-app-django", "social-auth-app-django", "python", "default/python/social_auth_app_django_site.py",
        _OWN, "`SOCIAL_AUTH_OIDC_USE_PKCE`", PKCE, "/complete/oidc/", more=(REFRESHED,),
    ),
    Library(
        "pyoidc", "oic", "python", "default/python/pyoidc.py", _OWN,
        "`code_challenge`, `authn_method`", f"{PKCE}; it is told how a secret is sent",
        refused="refused: another nonce", more=(REFRESHED, SIGNED_OUT, TOLD),
    ),
    Library(
        "python-jose", "python-jose", "python", "default/python/python_jose.py", _OWN,
        "the key by its `kid`", "it tries every key of a set, and stops at one of a kind that it does not know",
        refused="refused: another key",
    ),
    Library(
        "openid-client 6", "openid-client", "js", "javascript/default/openid-client-6.mjs", _LOCK,
        more=(REFRESHED, REVOKED, SIGNED_OUT),
    ),
    Library(
        "openid-client 5", "openid-client-5", "js", "javascript/default/openid-client-5.mjs", _LOCK,
        more=(REFRESHED, REVOKED, SIGNED_OUT),
    ),
    Library(
        "Auth.js (next-auth 5)", "@auth/core", "js", "javascript/default/auth-js.mjs", _LOCK,
        "`idToken: false`", "names and addresses come from userinfo, not in the ID token", "/auth/callback/ironauth",
    ),
    Library(
        "next-auth 4", "next-auth", "js", "parties/javascript/next-auth-4.mjs", _PARTIES,
        "`checks`, `idToken`, `userinfo`", f"{PKCE}; names and addresses come from userinfo, not in the ID token",
        "/api/auth/callback/ironauth", apart=True,
    ),
    Library(
        "oauth4webapi", "oauth4webapi", "js", "javascript/default/oauth4webapi.mjs", _LOCK, more=(REFRESHED, REVOKED)
    ),
    Library(
        "oidc-client-ts", "oidc-client-ts", "js", "javascript/default/oidc-client-ts.mjs", _LOCK,
        "`loadUserInfo`", "names and addresses come from userinfo, not in the ID token",
        public="spa", refused="refused: an answer seen before", more=(REFRESHED, REVOKED, SIGNED_OUT),
    ),
    Library(
        "AppAuth-JS", "@openid/appauth", "js", "parties/javascript/appauth.mjs", _PARTIES,
        public="native", refused="refused: a code used twice", more=(REFRESHED, REVOKED), apart=True,
    ),
    Library(
        "go-oidc", "github.com/coreos/go-oidc/v3", "go", "go/main.go", "go/go.mod",
        "`oauth2.S256ChallengeOption`, `oauth2.VerifierOption`", PKCE,
        refused="refused: another audience", more=(REFRESHED, TOLD),
    ),
    Library(
        "zitadel/oidc", "github.com/zitadel/oidc/v3", "go", "go/zitadel/main.go", "go/zitadel/go.mod",
        "`WithCodeChallenge`, `WithCodeVerifier`", PKCE, more=(REFRESHED, REVOKED, SIGNED_OUT),
    ),
    Library(
        "Nimbus (Java)", "oauth2-oidc-sdk", "java", "java/Nimbus.java", "java/SHA256SUMS",
        "`codeChallenge`, `CodeVerifier`", PKCE, more=(REFRESHED, REVOKED, SIGNED_OUT, TOLD),
    ),
    Library(
        "Spring Security", "spring-security-oauth2-client", "java", "parties/spring/Site.java",
        "parties/spring/SHA256SUMS",
        callback="/login/oauth2/code/ironauth", refused="refused: another browser's answer",
        more=(REFRESHED, SIGNED_OUT, TOLD), apart=True,
    ),
    Library(
        "AppAuth for Android", "appauth", "java", "parties/appauth/App.java", "parties/appauth/SHA256SUMS",
        callback="", public="native", refused="refused: a code used twice", more=(REFRESHED, SIGNED_OUT), apart=True,
    ),
    Library(
        "pac4j", "pac4j-oidc", "java", "parties/pac4j/Site.java", "parties/pac4j/SHA256SUMS",
        callback="/callback?client_name=OidcClient", refused="refused: another browser's answer",
        more=(REFRESHED, SIGNED_OUT, TOLD), apart=True,
    ),
    Library(
        "mod_auth_openidc", "libapache2-mod-auth-openidc", "apache", "parties/apache/site.conf", "",
        "`OIDCPKCEMethod`", PKCE, "/redirect", refused="refused: another browser's answer",
        more=(REFRESHED, REVOKED, SIGNED_OUT, TOLD), apart=True,
    ),
)  # fmt: skip
