"""The page docs/oauth/conformance.md, made of the plans."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings_test")  # for who runs this module
django.setup()

from tokens.oauth.tests.openid.plans import PLANS  # noqa: E402 - the tests' own modules read Django's settings
from tokens.oauth.tests.openid.registry import RELEASE, Module, Plan  # noqa: E402

PAGE: Final = Path(__file__).resolve().parents[4] / "docs" / "oauth" / "conformance.md"
INTRODUCTION: Final = f"""# Conformance

The OpenID Foundation publishes a [conformance suite](https://gitlab.com/openid/conformance-suite): plans, and in each
plan modules that check a provider. IronAuth passes the modules of release {RELEASE} below, but for one of Dynamic.
A test of the same name checks in every run of IronAuth's own suite what the module checks. It goes over HTTPS, through
the nginx that ships, and fills in our pages as a browser does. These tests are ours. They do not replace a run of the
Foundation's suite, and a run of it is no certification: that is the Foundation's to give, for a deployment.

*Passed*: every check holds. *Warning*: the specification says *should*, and we do something else for the reason that is
given. *Skipped*: the suite leaves the module out, because we do not offer what it is about. *Failed*: we do not do it.

The clients: for Basic, Form Post and both logouts a client of the profile `oidc` with a secret; for FAPI 2.0 one of the
profile `fapi2` with `private_key_jwt` and DPoP. The modules that differ run again with clients whose tokens are bound
to a certificate, and with clients that a certificate proves (RFC 8705). For Message Signing one of
`fapi2-message-signing`, which signs its requests and has the answers signed; for Dynamic one that registers itself
(`IRONAUTH_REGISTRATION=open`) and sends no PKCE (`IRONAUTH_REGISTRATION_WITHOUT_PKCE=1`; without it the modules that
sign in fail by that alone). The plan registers 21 clients from one address; an hour has 20
(`IRONAUTH_THROTTLE_REGISTRATIONS`): allow 100 for it.
Requests are fetched from registered addresses (`IRONAUTH_REQUEST_URIS=1`); without it, as it begins, the suite leaves
out the modules about unsigned requests and those at addresses.
[Clients](clients.md) has the profiles.

Run them yourself: `.venv/bin/python -m pytest tokens/oauth/tests/openid`.

The suite's plans for CIBA are not among them: there is no backchannel authentication, [for a
reason](../decisions/no-ciba.md). The metadata do not offer it.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([INTRODUCTION, *_summary(), *(line for plan in PLANS for line in _section(plan))]) + "\n"


def _summary() -> Iterator[str]:
    yield "| Plan | Modules | Passed | Warning | Skipped | Failed |\n|---|---|---|---|---|---|"
    for plan in PLANS:
        found = Counter(one.result for one in plan.modules)
        numbers = (found.total(), found["passed"], found["warning"], found["skipped"], found["failed"])
        yield f"| {plan.title} | {' | '.join(map(str, numbers))} |"
    yield ""


def _section(plan: Plan) -> Iterator[str]:
    variant = f", its modules that differ with `{plan.variant}`" if plan.variant else ""
    yield f"## {plan.title}\n\n`{plan.name}`{f', by `response_mode={plan.mode}`' if plan.mode else ''}{variant}\n"
    yield "| Module | What it checks | Our result |\n|---|---|---|"
    yield from (f"| `{one.name}` | {one.checks} | {_result(one)} |" for one in plan.modules)
    yield ""


def _result(module: Module) -> str:
    return f"{module.result}: {module.reason}" if module.reason else module.result


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
