"""The libraries that sign in with the default client, and the page that is made of their programs."""

import json
import re
import textwrap
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).resolve().parent
CLIENTS: Final = HERE.parent
ROOT: Final = CLIENTS.parents[3]
PAGE: Final = ROOT / "docs" / "oauth" / "libraries.md"
SITE: Final = "https://app.example.com"
FLAGS: Final = re.MULTILINE | re.DOTALL
#: What a program's user writes: the lines between the two comments.
LINES: Final = re.compile(r"^[ \t]*(?:#|//) begin: (?P<file>\S+)\n(?P<text>.*?)^[ \t]*(?:#|//) end$", FLAGS)
PKCE: Final = "PKCE is off unless asked for, and clients here need it"
REFUSED: Final = "refused: another algorithm"


class Library(NamedTuple):
    """A library. ``program``: below ``clients/``; ``pins``: the file with its version, below it or from the root."""

    name: str
    package: str
    language: str
    program: str
    pins: str
    option: str = "none"
    reason: str = ""
    callback: str = "/callback"
    public: bool = False
    refused: str = REFUSED

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
        text = (CLIENTS / self.pins).read_text(encoding="utf-8")
        if self.language == "js":
            return str(json.loads(text)["packages"][f"node_modules/{self.package}"]["version"])
        name = re.escape(self.package)
        form = {
            "go": rf"^\s*(?:require )?{name} v(\S+)",
            "java": rf"^[0-9a-f]{{64}}  {name}-(\d\S*)\.jar$",
        }.get(self.language, rf"^{name}==([^\s;]+)")
        (version,) = re.findall(form, text, re.MULTILINE)
        return str(version)

    @property
    def lines(self) -> str:
        """What its user writes, as a block of the page."""
        found = LINES.search(self.source.read_text(encoding="utf-8"))
        if found is None:
            raise ValueError(f"{self.program} does not say what its user writes")
        comment = "#" if self.language == "python" else "//"
        text = textwrap.dedent(found["text"]).expandtabs(4).strip("\n")
        return f"```{self.language}\n{comment} {found['file']}\n{text}\n```"


_LOCK: Final = "javascript/package-lock.json"
_OWN: Final = "default/python/requirements.txt"

LIBRARIES: Final = (
    Library(
        "Authlib", "authlib", "python", "default/python/authlib_site.py", _OWN,
        "`code_challenge_method`", PKCE,
    ),
    Library(
        "mozilla-django-oidc", "mozilla-django-oidc", "python", "default/python/mozilla_django_oidc_site.py", _OWN,
        "`OIDC_USE_PKCE`, `OIDC_RP_SIGN_ALGO`, the addresses",
        f"{PKCE}; it expects HS256 else; it reads no discovery document",
        "/oidc/callback/",
    ),
    Library(
        "social-auth-app-django", "social-auth-app-django", "python", "default/python/social_auth_app_django_site.py",
        _OWN, "`SOCIAL_AUTH_OIDC_USE_PKCE`", PKCE, "/complete/oidc/",
    ),
    Library(
        "pyoidc", "oic", "python", "default/python/pyoidc.py", _OWN,
        "`code_challenge`, `authn_method`", f"{PKCE}; it is told how a secret is sent",
        refused="refused: another nonce",
    ),
    Library(
        "python-jose", "python-jose", "python", "default/python/python_jose.py", _OWN,
        "the key by its `kid`", "it tries every key of a set, and stops at one of a kind that it does not know",
        refused="refused: another key",
    ),
    Library("openid-client 6", "openid-client", "js", "javascript/default/openid-client-6.mjs", _LOCK),
    Library("openid-client 5", "openid-client-5", "js", "javascript/default/openid-client-5.mjs", _LOCK),
    Library(
        "Auth.js (next-auth 5)", "@auth/core", "js", "javascript/default/auth-js.mjs", _LOCK,
        "`idToken: false`", "names and addresses come from userinfo, not in the ID token", "/auth/callback/ironauth",
    ),
    Library("oauth4webapi", "oauth4webapi", "js", "javascript/default/oauth4webapi.mjs", _LOCK),
    Library(
        "oidc-client-ts", "oidc-client-ts", "js", "javascript/default/oidc-client-ts.mjs", _LOCK,
        "`loadUserInfo`", "names and addresses come from userinfo, not in the ID token",
        public=True, refused="refused: an answer seen before",
    ),
    Library(
        "go-oidc", "github.com/coreos/go-oidc/v3", "go", "go/main.go", "go/go.mod",
        "`oauth2.S256ChallengeOption`, `oauth2.VerifierOption`", PKCE,
    ),
    Library(
        "zitadel/oidc", "github.com/zitadel/oidc/v3", "go", "go/zitadel/main.go", "go/zitadel/go.mod",
        "`WithCodeChallenge`, `WithCodeVerifier`", PKCE,
    ),
    Library(
        "Nimbus (Java)", "oauth2-oidc-sdk", "java", "java/Nimbus.java", "java/SHA256SUMS",
        "`codeChallenge`, `CodeVerifier`", PKCE,
    ),
)  # fmt: skip

INTRODUCTION: Final = """# Client libraries

Each of these signs people in, with the client that one line makes:

```sh
.venv/bin/python manage.py oauth_client create --name Wiki --redirect-uri https://wiki.example.com/callback
```

or, where it says *public*, with one of the kind "Single-page app" of the admin. The suite runs the lines below, in
these versions, against a server whose key set has keys of three kinds and three of RS256: every library that verifies
finds the right one by its `kid`. The suite also tries that a library refuses what another algorithm or key signed, or
what answers another request. In the lines, `issuer` is the address of your server. `http` lets a test in without TLS:
leave it out.
"""


def page() -> str:
    """Return the page."""
    rows = [
        f"| {one.name} | {one.version} | {'public' if one.public else 'by the line'} | {one.option} | {one.reason} |"
        for one in LIBRARIES
    ]
    table = ["| Library | Version | Client | What the library has to be told | Why |", "|---|---|---|---|---|", *rows]
    sections = [f"## {one.name}\n\n{one.lines}\n" for one in LIBRARIES]
    return "\n".join([INTRODUCTION, *table, "", *sections])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
