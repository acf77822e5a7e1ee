"""The page docs/oauth/libraries.md and the table in the guide for agents, made of the programs and of what passed.

`make clients` runs this as a program, at its end.
"""

import re
import sys
import textwrap
from pathlib import Path
from typing import Final

from tokens.oauth.tests.clients.default import judges, ran
from tokens.oauth.tests.clients.default.judges import JUDGES
from tokens.oauth.tests.clients.default.libraries import (
    CLIENTS,
    LIBRARIES,
    REFRESHED,
    REVOKED,
    SIGNED_IN,
    SIGNED_OUT,
    TOLD,
    WITHOUT_PKCE,
)

ROOT: Final = CLIENTS.parents[3]
PAGE: Final = ROOT / "docs" / "oauth" / "libraries.md"
AGENTS: Final = ROOT / "docs" / "guides" / "agents.md"
COLUMNS: Final = {
    SIGNED_IN: "Sign-in", REFRESHED: "Refresh", REVOKED: "Revoke", SIGNED_OUT: "Sign-out", TOLD: "Back-channel",
}  # fmt: skip
#: Which client each has: by the line, or of a kind of the admin's.
KINDS: Final = {"": "by the line", "spa": "Single-page app", "native": "Native app"}
SPRING: Final = CLIENTS / "parties" / "spring" / "Site.java"
API: Final = re.compile(r"^ *// begin-api: \S+\n(.*?)^ *// end-api$", re.MULTILINE | re.DOTALL)

INTRODUCTION: Final = """# Client libraries

Each of these signs people in, with the client that one line makes:

```sh
.venv/bin/python manage.py oauth_client create --name Wiki --redirect-uri https://wiki.example.com/callback
```

or, where it says *Single-page app* or *Native app*, with one of that kind of the admin. Who signs out or hears of it
adds `--post-logout-redirect-uri` or `--backchannel-logout-uri`. `make clients` runs the lines below in these versions
and writes this page. Its server has keys of three kinds and three of RS256: every library that verifies
finds the right one by its `kid`. It also tries that a library refuses what another algorithm or key signed, what
answers another request, or what came before. In the lines, `issuer` is the address of your server. `http` lets a test
in without TLS: leave it out.
"""
LEGEND: Final = """*Refresh*: new tokens by the refresh token. *Revoke*: the refresh token is over. *Sign-out*: at
IronAuth, and back at the application. *Back-channel*: the application hears of a sign-out elsewhere. *Without PKCE*:
sign-in with a client of the profile `oidc` (`--profile oidc`), where the library is told nothing of PKCE. *Not needed*:
it always sends PKCE, or leaves that to its user. *No*: the library
has no call for it, or none that follows the standard (social-auth-core revokes by GET and without the secret).
"""
RESOURCE_SERVER: Final = """`make clients` tries it, too: a token of RS256 is let in, one of Ed25519 and an ID token
are not. `issuer` in `application.yaml` is the address of your server. The audience is the same, unless the API is
[one of several](../guides/several-apis.md).
"""


def table() -> list[str]:
    """Return what each library has passed, as the lines of a table."""
    known = ran.kept()
    head = ["Library", "Version", "Client", *COLUMNS.values(), "Without PKCE"]
    rows = [[one.name, one.version, KINDS[one.public], *(
        "yes" if step in known[one.name]["steps"] else "no" for step in COLUMNS
    ), "yes" if WITHOUT_PKCE in known[one.name]["steps"] else "not needed"] for one in LIBRARIES]  # fmt: skip
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def page() -> str:
    """Return the page."""
    told = [f"| {one.name} | {one.option} | {one.reason} |" for one in LIBRARIES if one.reason]
    needs = ["| Library | What it has to be told | Why |", "|---|---|---|", *told]
    sections = [f"## {one.name}\n\n{one.lines}\n" for one in LIBRARIES]
    return "\n".join([INTRODUCTION, *table(), "", LEGEND, *needs, "", *sections, resource_server()])


def resource_server() -> str:
    """Return the section about Spring's own decoder of access tokens."""
    (text,) = API.findall(SPRING.read_text(encoding="utf-8"))
    lines = textwrap.dedent(text).strip("\n")
    return f"## Spring Security, resource server\n\n{RESOURCE_SERVER}\n```java\n// Api.java\n{lines}\n```\n"


def agents() -> str:
    """Return the guide for agents, with the table of who has tried it."""
    return judges.TABLE.sub(lambda _: judges.table(), AGENTS.read_text(encoding="utf-8"))


def main(page_file: Path = PAGE, guide: Path = AGENTS) -> None:
    """Write both anew from what this run of `make clients` has kept, and print the tables."""
    absent = ran.merge([*(one.name for one in LIBRARIES), *(one.name for one in JUDGES)])
    page_file.write_text(page(), encoding="utf-8")
    guide.write_text(agents(), encoding="utf-8")
    say = sys.stdout.write
    say("\n".join([*table(), "", judges.table()]))
    if absent:
        say(f"Not tried now, as it was before: {', '.join(absent)}\n")


if __name__ == "__main__":
    main()
