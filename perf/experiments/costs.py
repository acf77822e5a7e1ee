"""What single requests cost the server in CPU time: known tokens, first uses, and a flow without a page."""

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from perf.findings import Finding, Table, at_most
from perf.http_client import Connection
from perf.lab import Lab
from perf.load.oauth_flow import Visit, access_tokens
from perf.load.oauth_messages import Application, application_of, make_client
from perf.rig.processes import Server, StartError, free_port, thread_times
from perf.rig.seed import PASSWORD, email_of
from perf.rig.site_setup import prepare_site, private_servers, serve, site_environment

HYPOTHESIS = (
    "Where a warm /me takes 25.6 µs of CPU time: a worker that meets a token for the first time takes at most 150 µs "
    "by what another one has left in Redis, and never more than by the signature and the database; userinfo takes 30 "
    "µs, introspection 40, the list of one's own sessions 350, a flow of somebody who is signed in already 5 ms."
)
#: CPU time of a warm /me where the bounds were set (µs). They count in its multiples, whatever machine this is.
ME_US: Final = 25.6
SHARED_S: Final = 0.5  # after which what a worker shares is in Redis: it sends it every 0.02 s
PEOPLE, TOKENS, CONNECTIONS = 400, 8, 8
#: People who are signed in already, and flows of each in a round: together less than the sessions that one may have.
SIGNED_IN, FLOWS = 16, 8
REPEATED: Final = 2_000
ME: Final = "/api/v1/access/me"
INCLUDED: Final = (
    f"DEBUG off, PostgreSQL, Redis, one worker in each of three servers. {CONNECTIONS} connections; the flow has one. "
    "The CPU time is that of all threads of the server but those that hash (schedstat): no other process' is in it. "
    "What is wanted counts in multiples of a warm `/me` of the same round, whatever machine this is."
)


class Kind(NamedTuple):
    """A kind of request, and what it may take.

    Attributes:
        what: It in words.
        wanted_us: CPU µs where ``/me`` takes ``ME_US``; 0: shown only.
    """

    what: str
    wanted_us: float = 0.0


KNOWN, BY_REDIS, BY_DATABASE = "me", "by Redis", "by the database"
KINDS: Final = {
    KNOWN: Kind("`/me` with a token that the worker knows"),
    BY_REDIS: Kind("`/me`, a token's first use at a worker: by what another worker has shared", 150.0),
    BY_DATABASE: Kind("the same without Redis: by its signature and the database"),
    "userinfo": Kind("`/oauth/userinfo`, asked before", 30.0),
    "introspection": Kind("`/oauth/introspect`, asked before", 40.0),
    "sessions": Kind("the list of one's own sessions (one or few)", 350.0),
    "refresh": Kind("a refresh"),
    "flow": Kind("authorize, token, introspection and refresh of somebody who is signed in already", 5_000.0),
}


class Sent(NamedTuple):
    """A request."""

    target: str
    token: str = ""
    form: Mapping[str, str] | None = None
    json: object = None


class Site(NamedTuple):
    """Servers on one database: one that makes the tokens, one that meets them through Redis, one that has no Redis."""

    makes: Server
    redis: Server
    database: Server
    application: Application


def measure(lab: Lab) -> Finding:
    """Send each kind of request, and read the server's clock."""
    environment = site_environment(lab.folder, port=free_port(), hash_threads=1) | private_servers(
        lab.folder, lab.stack
    )
    opened = prepare_site(environment, people=PEOPLE + SIGNED_IN, sessions=True)
    client = make_client(environment)
    makes, redis, database = (
        serve(lab.folder / f"{name}.log", free_port(), environment | settings, lab.stack)
        for name, settings in (("makes", {}), ("redis", {}), ("database", {"REDIS_URL": ""}))
    )
    site = Site(makes, redis, database, application_of(makes.host, environment["IRONAUTH_ISSUER"], client))
    refresh_tokens = [each.refresh_token for each in opened[:PEOPLE]]
    at_client = access_tokens(makes.address, site.application, emails=map(email_of, range(TOKENS)), password=PASSWORD)
    rounds: list[dict[str, float]] = []
    for number in range(1, lab.rounds + 1):
        seen, refresh_tokens = asyncio.run(one_round(site, refresh_tokens, at_client))
        rounds.append(seen)
        lab.say(f"round {number}  " + "  ".join(f"{name} {us:.0f} µs" for name, us in seen.items()))
    return finding(rounds)


async def one_round(
    site: Site, refresh_tokens: Sequence[str], at_client: Sequence[str]
) -> tuple[dict[str, float], list[str]]:
    """Return the CPU µs of a request of each kind, and the newest refresh tokens.

    Args:
        site: The servers.
        refresh_tokens: Of as many sessions.
        at_client: Access tokens of the client.

    Raises:
        StartError: An answer was wrong.
    """
    seen: dict[str, float] = {}
    renewing = [Sent("/api/v1/access/refresh", json={"refresh_token": token}) for token in refresh_tokens]
    seen["refresh"], answers = await spent(site.makes, renewing)
    tokens = [answer["access_token"] for answer in answers]
    await asyncio.sleep(SHARED_S)
    uses = [Sent(ME, token) for token in tokens]
    seen[BY_REDIS] = (await spent(site.redis, uses))[0]
    seen[BY_DATABASE] = (await spent(site.database, uses))[0]
    credentials = site.application.credentials
    repeated = {
        KNOWN: [Sent(ME, token) for token in tokens[:TOKENS]],
        "userinfo": [Sent("/oauth/userinfo", token) for token in at_client],
        "introspection": [Sent("/oauth/introspect", form={"token": token, **credentials}) for token in at_client],
        "sessions": [Sent("/api/v1/access/sessions", token) for token in tokens[:TOKENS]],
    }
    for name, requests in repeated.items():
        await spent(site.makes, requests * 3)  # what is asked again is kept from the second time on
        seen[name] = (await spent(site.makes, requests * (REPEATED // len(requests))))[0]
    seen["flow"] = await flow_us(site)
    return {name: seen[name] for name in KINDS}, [answer["refresh_token"] for answer in answers]


async def spent(server: Server, requests: Sequence[Sent]) -> tuple[float, list[Any]]:
    """Send requests over a few connections; return the server's CPU µs of each, and what it answered.

    Raises:
        StartError: An answer was wrong.
    """
    answers: list[Any] = [None] * len(requests)

    async def share(first: int) -> None:
        async with Connection(server.address) as connection:
            for at in range(first, len(requests), CONNECTIONS):
                answers[at] = await answer_to(requests[at], connection)

    began = cpu_us(server)
    await asyncio.gather(*map(share, range(CONNECTIONS)))
    return (cpu_us(server) - began) / len(requests), answers


async def answer_to(asked: Sent, connection: Connection) -> Any:
    """Return what a server answers. Raises ``StartError`` unless that is 200."""
    method = "GET" if asked.form is None and asked.json is None else "POST"
    reply = await connection.send(method, asked.target, token=asked.token, form=asked.form, json=asked.json)
    if reply.status != 200:
        raise StartError(f"{method} {asked.target}: {reply.status} {reply.text}")
    return reply.json()


async def flow_us(site: Site) -> float:
    """Return the server's CPU µs of a flow of somebody who is signed in already.

    Raises:
        Wrong: An answer was not right.
    """
    async with Connection(site.makes.address) as connection:
        visits = [Visit(connection, site.application, lambda _step, _sent: None) for _ in range(SIGNED_IN)]
        for number, visit in enumerate(visits):
            await visit.signed_in(email_of(PEOPLE + number), PASSWORD)
        began = cpu_us(site.makes)
        for visit in visits * FLOWS:
            await visit.again()
        return (cpu_us(site.makes) - began) / (SIGNED_IN * FLOWS)


def cpu_us(server: Server) -> float:
    """Return the CPU µs that the threads of a server have had which hash no passwords."""
    return 1e6 * thread_times(server.pid).rest


def finding(rounds: Sequence[Mapping[str, float]]) -> Finding:
    """Say what was found; bounds count in multiples of a warm ``/me`` of the same round.

    Args:
        rounds: CPU µs of a request of each kind, for each round.
    """
    rows, checks = [], []
    for name, kind in KINDS.items():
        took = [one[name] for one in rounds]
        times = statistics.median(one[name] / one[KNOWN] for one in rounds)
        wanted = kind.wanted_us / ME_US
        rows.append((
            kind.what, f"{statistics.median(took):,.0f} ({min(took):,.0f}-{max(took):,.0f})", f"{times:.1f}",
            f"{wanted:.1f}" if wanted else "",
        ))  # fmt: skip
        if wanted:
            checks.append(at_most(f"{kind.what}, of a warm `/me`", wanted, times, " times"))
    dearer = statistics.median(one[BY_REDIS] / one[BY_DATABASE] for one in rounds)
    checks.append(at_most("a token's first use by Redis, of one by the database", 1.0, dearer, " times"))
    return Finding(
        [Table("CPU time of a request", ("request", "server CPU µs: median (low-high)", "of `/me`", "wanted"), rows)],
        checks,
        notes=[INCLUDED],
        data={"rounds": list(rounds)},
    )
