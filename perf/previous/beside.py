"""Both releases on one database: each goes on with what the other has begun."""

import json
from base64 import b64encode
from typing import Any

from perf.http_client import Connection
from perf.nodes.watch import REFUSED, Answers, Wrong, renew, seconds_until_refused, sign_in
from perf.previous.history import Code
from perf.previous.traffic import Traffic, client, new_email, sign_up
from perf.rig import seed

STALE_S = 5.0  # IRONAUTH_L1_MAX_STALE_S as it is by default
_CLIENT_COMMAND = ("oauth_client", "create", "--name", "Batch", "--grant", "client_credentials", "--scope", "reports")


async def serve_both(answers: Answers, old: str, new: str, clients: dict[str, dict[str, str]]) -> list[str]:
    """Let either server go on where the other began, while each serves people of its own; return what failed.

    ``clients`` are those of OAuth by the release that made them; where it is empty the old one has no OAuth.
    """
    crowds = Traffic(old), Traffic(new)
    failed = []
    async with crowds[0].around(), crowds[1].around(), client(old) as at_old, client(new) as at_new:
        for whose, one, other in (("the old", at_old, at_new), ("the new", at_new, at_old)):
            answers.during = f"begun at {whose} release"
            try:
                email = new_email()
                await sign_up(answers, one, email)
                await _sign_in_and_out(answers, email, one, other)
                await _sign_in_and_out(answers, email, other, one)
            except Wrong as error:
                failed.append(f"{answers.during}: {error}")
        for whose, made in clients.items():
            answers.during = f"a client made by {whose} release"
            await machine(answers, made, at_old, at_new)
            await machine(answers, made, at_new, at_old)
    return [*answers.wrong, *failed, *(text for crowd in crowds for text in crowd.answers.wrong)]


def make_clients(old: Code, new: Code) -> dict[str, dict[str, str]]:
    """Make a client of OAuth with each release; none where the old one does not know how."""
    if not list(old.folder.glob("*/management/commands/oauth_client.py")):
        return {}
    return {
        whose: json.loads(code.manage(*_CLIENT_COMMAND)) for whose, code in (("the old", old), ("the new", new))
    }  # fmt: skip


async def _sign_in_and_out(answers: Answers, email: str, first: Connection, second: Connection) -> None:
    """Sign in at the first; read, renew and sign out at the second; the first refuses what ended.

    Raises:
        Wrong: there was no session, or it did not end.
    """
    pair = await sign_in(answers, first, email, seed.PASSWORD)
    await answers.ask(second, "GET", "/access/me", token=pair.access)
    pair = await renew(answers, second, pair.refresh)
    pair = await renew(answers, first, pair.refresh)
    await answers.ask(second, "GET", "/access/sessions", token=pair.access)
    await answers.ask(first, "GET", "/access/me", token=pair.access)
    await answers.ask(second, "POST", "/access/logout", token=pair.access, allowed=(204,))
    await seconds_until_refused(answers, first, pair.access, limit_s=STALE_S)
    body: dict[str, object] = {"refresh_token": pair.refresh}
    await answers.ask(first, "POST", "/access/refresh", body=body, allowed=(REFUSED,))


async def machine(answers: Answers, made: dict[str, str], first: Connection, second: Connection) -> None:
    """Have a client get a token at the first, and ask the second about it.

    Args:
        answers: Where what is wrong is noted.
        made: The client, as the command printed it.
        first: The one server.
        second: The other, or the same.
    """
    secret = made["client_id"], made["client_secret"]
    got = await _form(answers, first, "/oauth/token", secret, grant_type="client_credentials")
    told = await _form(answers, second, "/oauth/introspect", secret, token=str(got.get("access_token")))
    if not told.get("active"):
        answers.wrong.append(f"{answers.during}: its token is not active at the other release: {told}")


async def _form(answers: Answers, http: Connection, path: str, secret: tuple[str, str], **form: str) -> dict[str, Any]:
    basic = {"Authorization": f"Basic {b64encode(':'.join(secret).encode()).decode()}"}
    answer = await answers.send(http, "POST", path, form=form, fields=basic)
    return dict(answer.json()) if answer is not None and answer.status == 200 else {}
