"""Addresses of storage among the settings: what each may be, on both sides of the line."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from ironauth.config import storage


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("sqlite:////var/lib/db.sqlite3", {"NAME": "/var/lib/db.sqlite3"}),
        ("sqlite:////var/c%2B%2B/db", {"NAME": "/var/c++/db"}),
        (
            "postgres://u:p%23%40ss@h:5433/db",
            {"USER": "u", "PASSWORD": "p#@ss", "HOST": "h", "PORT": 5433, "NAME": "db"},
        ),
        ("postgresql://u@[2001:db8::1]/db", {"HOST": "2001:db8::1", "NAME": "db"}),
        ("postgres:///db", {"HOST": "", "NAME": "db"}),
        ("postgres:////run/postgresql/db", {"HOST": "/run/postgresql", "NAME": "db"}),
        (
            "postgres://u@one:5432,two:5433/db",
            {
                "HOST": "one,two",
                "PORT": "5432,5433",
                "NAME": "db",
                "OPTIONS": {"target_session_attrs": "read-write"},
            },
        ),
        ("postgres://u:p%40@[::1]:1,two/db", {"HOST": "::1,two", "PORT": "1,5432", "PASSWORD": "p@"}),
        ("postgres://u@a,b/db?target_session_attrs=any", {"HOST": "a,b", "OPTIONS": {"target_session_attrs": "any"}}),
        ("postgres://u@h/db?sslmode=require", {"OPTIONS": {"sslmode": "require"}}),
    ],
)
def test_databases_are_accepted(url: str, found: dict[str, object]) -> None:
    """SQLite in a file by its absolute path, and Postgres."""
    assert found.items() <= storage.database(url, "DATABASE_URL").items()


def test_a_poolers_next_transaction_may_be_elsewhere() -> None:
    """On Postgres no cursor is left at the server between two statements; SQLite has no such thing."""
    assert storage.database("postgres://u:p@h/d", "DATABASE_URL")["DISABLE_SERVER_SIDE_CURSORS"] is True
    assert "DISABLE_SERVER_SIDE_CURSORS" not in storage.database("sqlite:////srv/x.sqlite3", "DATABASE_URL")


@pytest.mark.parametrize(
    "url",
    [
        "garbage",
        "sqlite",
        "sqlite://",
        "sqlite:///",
        "sqlite:////",
        "sqlite://:memory:",
        "sqlite:///relative.sqlite3",
        "sqlite:////var/lib/",
        "sqlite:////var/db?timeout=5",
        "sqlite:////var/db#1",
        "sqlite://hush-hush/db",
        "postgres://",
        "postgres://u:hush-hush@h",
        "postgres://u:hush-hush@h/",
        "postgres://u:hush-hush@h:port/db",
        "postgres://u:hush-hush@h:65536/db",
        "postgres://u:hush#hush-hush@h/db",
        "postgres://u:1/hush-hush@h/db",
        "postgres://u:1?hush-hush@h/db",
        "postgres://u:hush-hush@[::1/db",
        "postgres://u:hush-hush@%2Frun%2Fpostgresql/db",
        *("postgres://u:hush-hush@one,/db", "postgres://u:hush-hush@one,two:port/db"),
        "mysql://u:hush-hush@h/db",
        "http://h/db",
    ],
)
def test_other_databases_are_refused(url: str) -> None:
    """What is not one of the two is refused in one line; neither it nor its cause repeats the password."""
    with pytest.raises(ImproperlyConfigured, match=r"^DATABASE_URL is not a .*: write sqlite:////absolute") as refused:
        storage.database(url, "DATABASE_URL")
    assert "hush" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize(
    "url",
    [
        *("", "redis://h", "redis://h/", "redis://h:6379/0", "redis://:p%40ss@h/15", "rediss://u:p@[::1]:6380/1"),
        *("unix:///run/redis.sock", "unix:///run/redis.sock?db=2", "redis://h/0?socket_timeout=1"),
        *("redis+sentinel://s1,s2:26380,[::1]/main", "rediss+sentinel://:p%40ss@s1/main/1"),
    ],
)
def test_redis_is_accepted(url: str) -> None:
    """None, TCP with or without TLS, and a socket."""
    assert storage.redis(url, "REDIS_URL") == url


@pytest.mark.parametrize(
    "url",
    [
        *("garbage", "localhost:6379", "http://h", "redis://", "redis:///0", "redis://h:port/0", "redis://h:65536/0"),
        *("redis://h/zero", "redis://h/0/1", "redis://:hush#hush-hush@h/0", "redis://:hush-hush/a@h/0", "unix://"),
        *(
            "unix://run/redis.sock",
            "redis://h/0?socket_timeout=hush-hush",
            "redis://[::1/0",
            "REDIS://",
            "memcached://h",
            *("redis+sentinel://", "redis+sentinel://s1", "redis+sentinel://s1/", "redis+sentinel://s1,/main"),
            *("redis+sentinel://s1:0/main", "redis+sentinel://s1:65536/main", "redis+sentinel://s1:port/main"),
            *("redis+sentinel://s1/main/zero", "redis+sentinel://s1/ma in", "redis+sentinel://s1/main/0?a=1"),
            *("redis+sentinel://:hush-hush/a@s1/main", "redis+sentinel://hush-hush@s1/main"),
        ),
    ],
)
def test_other_redis_urls_are_refused(url: str) -> None:
    """What no client could connect to is refused in one line without the value."""
    with pytest.raises(ImproperlyConfigured, match=r"^REDIS_URL is not .*: write redis(://|\+sentinel://)") as refused:
        storage.redis(url, "REDIS_URL")
    assert "hush" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_what_an_address_behind_sentinel_says() -> None:
    """The Sentinels with their ports, the service, the database, and how Redis is entered."""
    assert storage.sentinels("rediss+sentinel://me:p%40ss@s1,[::1]:26380/main/2", "REDIS_URL") == storage.Sentinels(
        hosts=(("s1", 26379), ("::1", 26380)), service="main", database=2, username="me", password="p@ss", tls=True
    )
    plain = storage.sentinels("redis+sentinel://s1:65535/main", "REDIS_URL")
    assert plain == storage.Sentinels((("s1", 65535),), "main", 0, "", "", tls=False)


def test_one_host_is_taken_as_it_is() -> None:
    """With one address there is nothing to choose from: a replica is the operator's own wish."""
    assert "OPTIONS" not in storage.database("postgres://u@one/db", "DATABASE_URL")


PRIMARY = storage.database("postgres://u:p@h/d", "DATABASE_URL")


def test_a_replica_is_described_as_its_primary_is() -> None:
    """None by default; of several machines the first that follows, unless the address says otherwise."""
    assert storage.replica("", "IRONAUTH_REPLICA_URL", of=PRIMARY) is None
    found = storage.replica("postgres://u:p@r:5001/d", "IRONAUTH_REPLICA_URL", of=PRIMARY)
    assert found == storage.database("postgres://u:p@r:5001/d", "X")
    for query, wanted in {"": "prefer-standby", "?target_session_attrs=standby": "standby"}.items():
        several = storage.replica(f"postgres://u:p@a,b/d{query}", "IRONAUTH_REPLICA_URL", of=PRIMARY)
        assert several is not None
        assert several["OPTIONS"] == {"target_session_attrs": wanted}


@pytest.mark.parametrize(
    ("url", "primary"),
    [
        ("postgres://u:hush-hush@r/d", "sqlite:////srv/x.sqlite3"),
        ("sqlite:////srv/x.sqlite3", "sqlite:////srv/x.sqlite3"),
        ("sqlite:////srv/x.sqlite3", "postgres://u:p@h/d"),
        ("mysql://u:hush-hush@h/d", "postgres://u:p@h/d"),
    ],
)
def test_a_replica_is_of_postgres(url: str, primary: str) -> None:
    """Both are on Postgres; the refusal names the setting and no password."""
    with pytest.raises(ImproperlyConfigured, match="IRONAUTH_REPLICA_URL") as refused:
        storage.replica(url, "IRONAUTH_REPLICA_URL", of=storage.database(primary, "DATABASE_URL"))
    assert "hush-hush" not in str(refused.value)
