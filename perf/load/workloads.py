"""The workloads of the benchmark: which requests, to which server, with how many connections."""

import itertools
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from perf.load.closed_loop import run_load
from perf.load.oauth_flow import access_tokens
from perf.load.oauth_messages import Application
from perf.load.sources import NO_CONTENT, Constant, Refresh, SignIn, SignUp, Source, TokenPair, form, get
from perf.rig.processes import Server
from perf.rig.seed import PASSWORD, email_of

ACCESS_COOKIE = "__Host-access_token"  # its name where cookies are Secure, as they are outside DEBUG
SEEDED_PEOPLE = 4_000  # distinct sign-ins in one run; more than 3 rounds of 60 s at 20 hashes/s


@dataclass
class Site:
    """The server under test and the supplies of one benchmark run, shared by its rounds.

    ``application``: the OAuth client that the workloads of one need.
    """

    server: Server
    application: Application | None = None
    emails: "itertools.cycle[str]" = field(
        default_factory=lambda: itertools.cycle([email_of(serial) for serial in range(SEEDED_PEOPLE)])
    )
    serials: "itertools.count[int]" = field(default_factory=itertools.count)
    prefix: str = field(default_factory=lambda: f"new-{secrets.token_hex(4)}-")

    def sign_in(self, count: int) -> list[TokenPair]:
        """Sign in ``count`` people, two at a time so that nothing is shed; the token pairs are fresh.

        Raises:
            RuntimeError: fewer than ``count`` sign-ins succeeded.
        """
        pairs: list[TokenPair] = []
        people = itertools.islice(self.emails, count)
        sources = [SignIn(self.server.host, people, PASSWORD, pairs) for _ in range(2)]
        result = run_load(self.server.address, sources, seconds=60)
        if len(pairs) < count:
            raise RuntimeError(
                f"{len(pairs)} of {count} sign-ins succeeded: {dict(result.failures)}, {result.shed} shed"
            )
        return pairs

    def at_client(self, count: int) -> tuple[Application, list[str]]:
        """Sign ``count`` people in at the client; return it, and the access token that it got of each.

        Raises:
            RuntimeError: There is no client.
            Wrong: A sign-in failed.
        """
        if self.application is None:
            raise RuntimeError("this site has no OAuth client: make one before its server starts")
        people = itertools.islice(self.emails, count)
        tokens = access_tokens(self.server.address, self.application, emails=people, password=PASSWORD)
        return self.application, tokens


@dataclass(frozen=True)
class Workload:
    """One line of the table. ``hashing`` workloads get every core and a longer window.

    ``server``: which one answers; "ours" is the bare callable under
    IronAuth's protocol class, "view" IronAuth with its hot lane off.
    """

    name: str
    title: str
    hashing: bool
    sources: Callable[[Site, Server, int], Sequence[Source]]  # site, bare server, connections
    server: Literal["bare", "ours", "site", "view"] = "site"


def _bare(_site: Site, bare: Server, connections: int) -> Sequence[Source]:
    return [Constant(get("/", bare.host)) for _ in range(connections)]


def _ping(site: Site, _bare: Server, connections: int) -> Sequence[Source]:
    return [Constant(get("/ping", site.server.host)) for _ in range(connections)]


def _me(site: Site, _bare: Server, connections: int) -> Sequence[Source]:
    """Give each connection a person of its own, as real clients have."""
    host = site.server.host
    return [Constant(get("/api/v1/access/me", host, pair.access_token)) for pair in site.sign_in(connections)]


def _me_cookie(site: Site, _bare: Server, connections: int) -> Sequence[Source]:
    """Do as browsers do."""
    host = site.server.host
    cookies = [f"{ACCESS_COOKIE}={pair.access_token}" for pair in site.sign_in(connections)]
    return [Constant(get("/api/v1/access/me", host, cookie=cookie)) for cookie in cookies]


def _verify(site: Site, _bare: Server, connections: int) -> Sequence[Source]:
    """Do as a reverse proxy does before it lets a request through."""
    requests = [get("/api/v1/access/verify", site.server.host, pair.access_token) for pair in site.sign_in(connections)]
    return [Constant(request, statuses=(NO_CONTENT,)) for request in requests]


def _userinfo(site: Site, _bare: Server, connections: int) -> Sequence[Source]:
    """Do as an application does that wants to know more of the person than their ID token says."""
    tokens = site.at_client(connections)[1]
    return [Constant(get("/oauth/userinfo", site.server.host, token)) for token in tokens]


def _introspect(site: Site, _bare: Server, connections: int) -> Sequence[Source]:
    """Do as an application's server does that asks about the token of each request."""
    application, tokens = site.at_client(connections)
    asked = ({"token": token, **application.credentials} for token in tokens)
    return [Constant(form("/oauth/introspect", site.server.host, fields)) for fields in asked]


def _health(site: Site, _bare: Server, connections: int) -> Sequence[Source]:
    return [Constant(get("/health", site.server.host), varying=True) for _ in range(connections)]


def _refresh(site: Site, _bare: Server, connections: int) -> Sequence[Source]:
    return [Refresh(site.server.host, pair.refresh_token) for pair in site.sign_in(connections)]


def _sign_in(site: Site, _bare: Server, connections: int) -> Sequence[Source]:
    return [SignIn(site.server.host, site.emails, PASSWORD) for _ in range(connections)]


def _sign_up(site: Site, _bare: Server, connections: int) -> Sequence[Source]:
    return [SignUp(site.server.host, site.serials, site.prefix, PASSWORD) for _ in range(connections)]


BARE, HASH = "bare", "hash"  # the two yardsticks; HASH is measured without a server, see hash_rate
WORKLOADS = (
    Workload(BARE, "bare ASGI callable, stock Uvicorn", False, _bare, "bare"),
    Workload("bare-ours", "the same under our HTTP protocol class", False, _bare, "ours"),
    Workload("ping", "`GET /ping`", False, _ping),
    Workload("me", "`GET /api/v1/access/me`, warm, bearer", False, _me),
    Workload("me-cookie", "the same, the token in a browser's cookie", False, _me_cookie),
    Workload("verify", "`GET /api/v1/access/verify`, warm, bearer", False, _verify),
    Workload("userinfo", "`GET /oauth/userinfo`, warm, bearer", False, _userinfo),
    Workload("introspect", "`POST /oauth/introspect`, warm, the secret in the body", False, _introspect),
    Workload("me-view", "`GET /api/v1/access/me` through the DRF view, hot lane off", False, _me, "view"),
    Workload("health", "`GET /health`", False, _health),
    Workload("refresh", "`POST /api/v1/access/refresh`", False, _refresh),
    Workload("signin", "`POST /api/v1/access/signin`", True, _sign_in),
    Workload("signup", "`POST /api/v1/access/signup`", True, _sign_up),
)
