"""Every endpoint that needs no password hash: how it is asked, as often as wanted, with answers that can be checked."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from perf.load.sources import CREATED, NO_CONTENT, OK, First, Listed, Refresh, Source, TokenPair, get, send
from perf.rig.seed import SeededSession

ACCESS, STAFF = "/api/v1/access", "/api/v1"
ROLE = "bench"  # a role that exists, for giving and taking
EXPORTS = 5  # of one person, who may have no more in an hour: each is an event, which the next one has in it
#: Operations of the API that hash a password: their latency is Argon2's, and perf.bench measures it.
HASHING = frozenset(
    {
        f"POST {ACCESS}/signup",
        f"POST {ACCESS}/signin",
        f"POST {ACCESS}/password",
        f"DELETE {ACCESS}/me",  # asks for the password once more
        f"POST {ACCESS}/email",  # as above
        f"POST {ACCESS}/password/reset/confirm",
        f"POST {ACCESS}/step-up",
        f"POST {ACCESS}/mfa/totp/confirm",  # makes ten recovery codes
        f"POST {ACCESS}/mfa/recovery-codes",  # as above
        f"POST {ACCESS}/mfa/passkeys",  # as above, with the first
        f"DELETE {ACCESS}/mfa/totp",
    }
)
#: Operations that are slow on purpose, or need what only a message says: answered at even steps of 0.1 s, so that
#: nobody reads from the clock who has an account; verifying and restoring take a token that a message brings.
BY_MAIL = frozenset(
    {
        f"POST {ACCESS}/password/reset",
        f"POST {ACCESS}/email/verify",
        f"POST {ACCESS}/email/verify/resend",
        f"POST {ACCESS}/me/restore",
    }
)
#: Operations that take what somebody's app or authenticator says, or that somebody has one.
BY_DEVICE = frozenset(
    {
        f"POST {ACCESS}/signin/mfa",
        f"POST {ACCESS}/signin/mfa/options",
        f"POST {ACCESS}/signin/passkey",
        f"POST {ACCESS}/step-up/options",
        f"DELETE {ACCESS}/mfa/passkeys/{{passkey_id}}",
    }
)

#: Operations that an application calls, with what it got in another one: the experiment ``oauth_flow`` measures them.
BY_CLIENT = frozenset(
    {
        "POST /oauth/par",
        "POST /oauth/device_authorization",
        "POST /oauth/token",
        "POST /oauth/introspect",
        "POST /oauth/revoke",
        "GET /oauth/userinfo",
        "POST /oauth/userinfo",
        f"DELETE {ACCESS}/consents/{{client_id}}",
    }
)


@dataclass(frozen=True)
class Member:
    """A seeded person with an open session and its present tokens."""

    session: SeededSession
    pair: TokenPair


@dataclass
class Supply:
    """What the requests to one site need. ``people`` are used up: most by one request each, which ends or deletes.

    ``staff`` is a superuser; he and ``reader`` stay signed in.
    """

    host: str
    staff: Member
    reader: Member
    people: Iterator[Member]
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    with_role: deque[Member] = field(default_factory=deque)

    def take(self, count: int) -> list[Member]:
        """Return the next people.

        Raises:
            LookupError: there are not so many left.
        """
        taken = list(itertools.islice(self.people, count))
        if len(taken) < count:
            raise LookupError(f"{count} more people are needed and {len(taken)} are left: seed more")
        return taken


@dataclass(frozen=True)
class Endpoint:
    """One operation, named as in the OpenAPI document, and how to ask for it ``count`` times over one connection.

    ``server``: "view" is IronAuth with its hot lane off. ``promised``: whether the promised median covers it.
    """

    operation: str
    source: Callable[[Supply, int], Source]
    note: str = ""
    server: Literal["site", "view"] = "site"
    promised: bool = True

    @property
    def title(self) -> str:
        """The operation as the table names it."""
        return f"`{self.operation}`{f', {self.note}' if self.note else ''}"


def _public(path: str, note: str = "", *, promised: bool = True) -> Endpoint:
    """Return a GET that needs no credential."""

    def source(supply: Supply, count: int) -> Source:
        return Listed(itertools.repeat(get(path, supply.host), count))

    return Endpoint(f"GET {path}", source, note, promised=promised)


def _reading(path: str, note: str = "", *, status: int = OK, server: Literal["site", "view"] = "site") -> Endpoint:
    """Return a GET of somebody signed in, whose token the server has seen before."""

    def source(supply: Supply, count: int) -> Source:
        request = get(path, supply.host, supply.reader.pair.access_token)
        return Listed(itertools.repeat(request, count), statuses=(status,))

    return Endpoint(f"GET {path}", source, note, server)


def _by_staff(operation: str, requests: Callable[[Supply, int], Iterable[bytes]], status: int = OK) -> Endpoint:
    return Endpoint(operation, lambda supply, count: Listed(requests(supply, count), statuses=(status,)))


def _each(
    operation: str, requests: Callable[[Supply, int], Iterable[bytes]], note: str, status: int = NO_CONTENT
) -> Endpoint:
    """Return an operation that each person does once, or a few times."""
    return Endpoint(operation, lambda supply, count: Listed(requests(supply, count), statuses=(status,)), note)


def _ask(supply: Supply, method: str, path: str, members: dict[str, object] | None = None) -> bytes:
    return send(method, f"{STAFF}{path}", supply.host, members, supply.staff.pair.access_token)


def _list(path: str) -> Endpoint:
    """Return a list that staff read."""
    return _by_staff(f"GET {STAFF}{path}", lambda supply, count: itertools.repeat(_ask(supply, "GET", path), count))


def _own(operation: str, members: dict[str, object] | None = None, status: int = OK) -> Endpoint:
    """Return an operation that somebody signed in repeats on their own account."""
    method, _, path = operation.partition(" ")

    def source(supply: Supply, count: int) -> Source:
        request = send(method, path, supply.host, members, supply.reader.pair.access_token)
        return Listed(itertools.repeat(request, count), statuses=(status,))

    return Endpoint(operation, source)


def _export(supply: Supply, count: int) -> Iterable[bytes]:
    people = supply.take(-(-count // EXPORTS))
    asked = (each for each in people for _ in range(EXPORTS))
    return [get(f"{ACCESS}/me/export", supply.host, each.pair.access_token) for each in itertools.islice(asked, count)]


def _ask_for_challenge(supply: Supply, count: int) -> Source:
    return Listed(itertools.repeat(send("POST", f"{ACCESS}/signin/passkey/options", supply.host, {}), count))


def _reset_factors(supply: Supply, count: int) -> Iterable[bytes]:
    return [_ask(supply, "DELETE", f"/users/{each.session.user_id}/mfa") for each in supply.take(count)]


def _rename(supply: Supply, count: int) -> Iterable[bytes]:
    bearer = supply.reader.pair.access_token
    names = [{"name": f"Reader {next(supply.numbers)}"} for _ in range(count)]
    return [send("PATCH", f"{ACCESS}/me", supply.host, name, bearer) for name in names]


def _sign_out(supply: Supply, count: int) -> Iterable[bytes]:
    return [send("POST", f"{ACCESS}/logout", supply.host, {}, each.pair.access_token) for each in supply.take(count)]


def _sign_out_by_refresh_token(supply: Supply, count: int) -> Iterable[bytes]:
    tokens = [{"refresh_token": each.pair.refresh_token} for each in supply.take(count)]
    return [send("POST", f"{ACCESS}/logout", supply.host, token) for token in tokens]


def _sign_out_everywhere(supply: Supply, count: int) -> Iterable[bytes]:
    return [
        send("POST", f"{ACCESS}/logout-all", supply.host, None, each.pair.access_token) for each in supply.take(count)
    ]


def _end_session(supply: Supply, count: int) -> Iterable[bytes]:
    return [
        send("DELETE", f"{ACCESS}/sessions/{each.session.session_id}", supply.host, None, each.pair.access_token)
        for each in supply.take(count)
    ]


def _refresh(supply: Supply, count: int) -> Source:
    return First(Refresh(supply.host, supply.take(1)[0].pair.refresh_token), count)


def _read_user(supply: Supply, count: int) -> Iterable[bytes]:
    return itertools.repeat(_ask(supply, "GET", f"/users/{supply.reader.session.user_id}"), count)


def _create_user(supply: Supply, count: int) -> Iterable[bytes]:
    emails = [f"made{next(supply.numbers)}@bench.example" for _ in range(count)]
    return [_ask(supply, "POST", "/users", {"email": email}) for email in emails]


def _change_user(supply: Supply, count: int) -> Iterable[bytes]:
    path = f"/users/{supply.reader.session.user_id}"
    return [_ask(supply, "PATCH", path, {"name": f"Renamed {next(supply.numbers)}"}) for _ in range(count)]


def _delete_user(supply: Supply, count: int) -> Iterable[bytes]:
    return [_ask(supply, "DELETE", f"/users/{each.session.user_id}") for each in supply.take(count)]


def _give_role(supply: Supply, count: int) -> Iterable[bytes]:
    people = supply.take(count)
    supply.with_role.extend(people)
    return [_ask(supply, "PUT", f"/users/{each.session.user_id}/roles/{ROLE}") for each in people]


def _take_role(supply: Supply, count: int) -> Iterable[bytes]:
    people = [supply.with_role.popleft() for _ in range(count)]
    return [_ask(supply, "DELETE", f"/users/{each.session.user_id}/roles/{ROLE}") for each in people]


def _create_role(supply: Supply, count: int) -> Iterable[bytes]:
    return [_ask(supply, "POST", "/roles", {"name": f"{ROLE}-{next(supply.numbers)}"}) for _ in range(count)]


def _list_sessions(supply: Supply, count: int) -> Iterable[bytes]:
    return itertools.repeat(_ask(supply, "GET", f"/users/{supply.reader.session.user_id}/sessions"), count)


def _end_sessions(supply: Supply, count: int) -> Iterable[bytes]:
    return [_ask(supply, "DELETE", f"/users/{each.session.user_id}/sessions") for each in supply.take(count)]


#: Taking a role comes after giving it, to the same people.
ENDPOINTS = (
    _public("/ping"),
    _public("/health"),
    _public("/health/live"),
    _public("/.well-known/jwks.json"),
    _public("/.well-known/openid-configuration"),
    _public("/.well-known/oauth-authorization-server"),
    _public("/api/openapi.json"),
    _public("/api/docs"),
    _public("/"),
    _public("/favicon.ico"),
    _public("/admin/login/", "the admin lane, shown only", promised=False),
    _reading(f"{ACCESS}/me"),
    _reading(f"{ACCESS}/me", "hot lane off", server="view"),
    _reading(f"{ACCESS}/verify", status=NO_CONTENT),
    _reading(f"{ACCESS}/verify", "hot lane off", status=NO_CONTENT, server="view"),
    _reading(f"{ACCESS}/sessions"),
    _reading(f"{ACCESS}/consents"),
    _reading(f"{ACCESS}/mfa"),
    _each(f"GET {ACCESS}/me/export", _export, f"{EXPORTS} by each person", OK),
    _own(f"POST {ACCESS}/mfa/totp"),
    _own(f"POST {ACCESS}/mfa/passkeys/options", {}),
    Endpoint(f"POST {ACCESS}/signin/passkey/options", _ask_for_challenge),
    Endpoint(f"PATCH {ACCESS}/me", lambda supply, count: Listed(_rename(supply, count))),
    Endpoint(f"POST {ACCESS}/refresh", _refresh),
    _each(f"POST {ACCESS}/logout", _sign_out, "by access token"),
    _each(f"POST {ACCESS}/logout", _sign_out_by_refresh_token, "by refresh token"),
    _each(f"POST {ACCESS}/logout-all", _sign_out_everywhere, "new token"),
    _each(f"DELETE {ACCESS}/sessions/{{session_id}}", _end_session, "new token"),
    _list("/users"),
    _by_staff(f"GET {STAFF}/users/{{user_id}}", _read_user),
    _by_staff(f"POST {STAFF}/users", _create_user, CREATED),
    _by_staff(f"PATCH {STAFF}/users/{{user_id}}", _change_user),
    _by_staff(f"DELETE {STAFF}/users/{{user_id}}", _delete_user, NO_CONTENT),
    _by_staff(f"DELETE {STAFF}/users/{{user_id}}/mfa", _reset_factors, NO_CONTENT),
    _by_staff(f"PUT {STAFF}/users/{{user_id}}/roles/{{role}}", _give_role, NO_CONTENT),
    _by_staff(f"DELETE {STAFF}/users/{{user_id}}/roles/{{role}}", _take_role, NO_CONTENT),
    _list("/roles"),
    _list("/audit"),
    _by_staff(f"POST {STAFF}/roles", _create_role, CREATED),
    _by_staff(f"GET {STAFF}/users/{{user_id}}/sessions", _list_sessions),
    _by_staff(f"DELETE {STAFF}/users/{{user_id}}/sessions", _end_sessions, NO_CONTENT),
)
