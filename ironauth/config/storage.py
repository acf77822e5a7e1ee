"""Addresses of storage among the settings: the database, and Redis, alone or behind Sentinel.

As in ``config.addresses``: what may be used is returned, everything else is refused in one line without a password.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

POSTGRES_SCHEMES: Final = ("postgres", "postgresql")
SENTINEL_SCHEMES: Final = ("redis+sentinel", "rediss+sentinel")
SENTINEL_PORT: Final = 26379  # https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/
SENTINEL_FORM: Final = "redis+sentinel://user:password@host:26379,host:26379/service/0"
_SENTINEL_URL: Final = re.compile(
    r"(?P<scheme>rediss?\+sentinel)://(?:(?P<username>[^:@/,?#]*):(?P<password>[^@/,?#]+)@)?(?P<hosts>[^@/?#]+)"
    r"/(?P<service>[A-Za-z0-9._-]+)(?:/(?P<database>[0-9]{1,4}))?"
)
_HOST: Final = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(?::(?P<port>[0-9]{1,5}))?")


def database(url: str, name: str) -> dict[str, Any]:
    """Return Django's description of the database: SQLite in a file, or Postgres.

    A relative SQLite path would be another database in every working directory, and one in memory another one in
    every thread.

    Args:
        url: The text of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: It is neither.
    """
    remedy = (
        "write sqlite:////absolute/path, postgres://user:password@host:5432/name (several nodes: host:5432,host:5432; "
        "special characters of the password as %XX) or postgres:////folder/of/socket/name"
    )
    scheme = url.partition("://")[0]
    sqlite = url.startswith("sqlite:////")
    try:
        parts = urlsplit(url)
        found: dict[str, Any] = environ.Env.db_url_config(url) if sqlite or scheme in POSTGRES_SCHEMES else {}
    except (ValueError, IndexError):
        raise ImproperlyConfigured(f"{name} is not a database URL: {remedy}") from None
    path = str(found.get("NAME", ""))
    if sqlite:
        good = len(path) > 1 and not path.endswith("/") and not parts.query
    else:
        good = bool(path) and "/" not in path and "@" not in path and "%" not in str(found["HOST"])
    if not good or parts.fragment:
        raise ImproperlyConfigured(f"{name} is not a SQLite or Postgres URL: {remedy}")
    if "," in parts.netloc.rpartition("@")[2]:  # several nodes, of which one takes writes: libpq asks each for it
        nodes = [_HOST.fullmatch(node) for node in parts.netloc.rpartition("@")[2].split(",")]
        if not all(nodes):
            raise ImproperlyConfigured(f"{name} is not a SQLite or Postgres URL: {remedy}")
        found |= {
            "HOST": ",".join(node["host"].strip("[]") for node in nodes if node),
            "PORT": ",".join(node["port"] or "5432" for node in nodes if node),
            "OPTIONS": {"target_session_attrs": "read-write", **found.get("OPTIONS", {})},
        }
    # A server-side cursor would outlive its transaction (the admin's choices are read by one). Behind PgBouncer the
    # next FETCH reaches another server process, which does not know the cursor. Nothing here reads so many rows that it
    # matters.
    return found if sqlite else {**found, "DISABLE_SERVER_SIDE_CURSORS": True}


def replica(url: str, name: str, *, of: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return Django's description of a replica, None for none.

    Args:
        url: The text of the setting.
        name: The setting, for the error.
        of: The description of the primary.

    Raises:
        ImproperlyConfigured: It is not on Postgres, or the primary is not.
    """
    if not url:
        return None
    found = database(url, name)
    if found["ENGINE"] != of["ENGINE"] or url.startswith("sqlite:"):
        raise ImproperlyConfigured(f"{name} is for Postgres: remove it, or set DATABASE_URL to postgres://…")
    if found.get("OPTIONS", {}).get("target_session_attrs") == "read-write":  # what several nodes have by default
        found["OPTIONS"] = {**found["OPTIONS"], "target_session_attrs": "prefer-standby"}
    return found


def redis(url: str, name: str) -> str:
    """Return the address of Redis; empty stands for none.

    Args:
        url: The text of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: It is no URL of Redis that the client can use.
    """
    if not url:
        return url
    if url.partition("://")[0] in SENTINEL_SCHEMES:
        sentinels(url, name)
        return url
    from redis.asyncio.connection import parse_url  # noqa: PLC0415 - 8 MiB that a server without Redis does not need

    try:
        parts = urlsplit(url)
        parse_url(url)  # what the client itself will say about scheme, port and options
        reachable = (not parts.hostname and parts.path != "") if parts.scheme == "unix" else bool(parts.hostname)
        good = reachable and not parts.fragment and (parts.scheme == "unix" or re.fullmatch(r"/?[0-9]*", parts.path))
    except ValueError:
        good = False
    if not good:
        raise ImproperlyConfigured(
            f"{name} is not a Redis URL: write redis://host:6379/0, rediss://… for TLS, unix:///path or "
            f"{SENTINEL_FORM}, special characters of the password as %XX; or leave it empty for none"
        ) from None
    return url


class Sentinels(NamedTuple):
    """Redis behind Sentinel: who is asked for the master, and how it is entered.

    Attributes:
        hosts: The Sentinels, each with its port.
        service: The name under which they watch the master.
        database: The number of the database.
        username: Of Redis; empty for its default user.
        password: Of Redis; the Sentinels themselves are asked without one.
        tls: Whether Redis and the Sentinels are entered by TLS.
    """

    hosts: tuple[tuple[str, int], ...]
    service: str
    database: int
    username: str
    password: str
    tls: bool


def sentinels(url: str, name: str) -> Sentinels:
    """Return what ``redis+sentinel://[user:password@]host[:port],…/service[/database]`` says.

    Args:
        url: The text of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: It has another form.
    """
    found = _SENTINEL_URL.fullmatch(url)
    hosts = [_HOST.fullmatch(host) for host in found["hosts"].split(",")] if found else []
    if found is None or not all(hosts) or any(int(host["port"] or 1) not in range(1, 65536) for host in hosts if host):
        raise ImproperlyConfigured(
            f"{name} is not an address of Redis behind Sentinel: write {SENTINEL_FORM}, special characters of the "
            "password as %XX"
        )
    return Sentinels(
        hosts=tuple((host["host"].strip("[]"), int(host["port"] or SENTINEL_PORT)) for host in hosts if host),
        service=found["service"],
        database=int(found["database"] or 0),
        username=unquote(found["username"] or ""),
        password=unquote(found["password"] or ""),
        tls=found["scheme"] == SENTINEL_SCHEMES[1],
    )
