"""nginx counts what makes IronAuth hash: every such method and path, found by following what each view calls."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, ModuleType
from typing import Any, Final

import pytest
from django.urls import URLPattern, URLResolver

from accounts.mfa.factors import FACTORS
from accounts.mfa.reauthentication import SecondFactorMethod
from accounts.passwords import hashing as passwords
from accounts.users.password_method import PasswordMethod
from ironauth.tests.deploy.files import DEPLOY
from ironauth.urls import urlpatterns

#: Whatever hashes calls one of these; a test below sees that there is no other.
HASHING: Final = {passwords.hash_password, passwords.verify_password}
#: Methods of second factors and of re-authentication that judge what was shown: some of it is hashed.
JUDGED: Final = {"judge"}
#: What comes in kinds: which one a method is called on shows only when it runs.
KINDS: Final = (*map(type, FACTORS), PasswordMethod, SecondFactorMethod)
OURS: Final = ("accounts.", "tokens.", "ironauth.")
METHODS: Final = ("get", "post", "put", "patch", "delete")
SAMPLE: Final = {"uuid": "0198c5a0-0000-7000-8000-000000000000", "str": "x", "int": "1", "slug": "x", "path": "x"}
#: What is known to hash, so that a search that follows nothing is noticed.
KNOWN: Final = {
    "POST /api/v1/access/signin", "POST /api/v1/access/signin/mfa", "POST /api/v1/access/signup",
    "POST /api/v1/access/step-up", "POST /api/v1/access/password", "POST /api/v1/access/password/reset/confirm",
    "POST /api/v1/access/email", "DELETE /api/v1/access/me", "DELETE /api/v1/access/mfa/totp",
    "POST /api/v1/access/mfa/totp/confirm", "POST /api/v1/access/mfa/recovery-codes", "POST /api/v1/users",
    "POST /oauth/signin", "POST /oauth/signin/code", "POST /password/reset",
}  # fmt: skip


def routes(patterns: list[Any], prefix: str = "/") -> Iterator[tuple[str, Any]]:
    """Yield every path but the admin's, with something for each parameter, and its callback."""
    for pattern in patterns:
        route = re.sub(r"<(\w+):\w+>", lambda found: SAMPLE[found[1]], str(pattern.pattern))
        if isinstance(pattern, URLResolver) and route != "admin/":
            yield from routes(pattern.url_patterns, prefix + route)
        elif isinstance(pattern, URLPattern):
            yield prefix + route, pattern.callback


def named(function: FunctionType, owner: type | None) -> Iterator[Any]:
    """Yield what the names and dotted names in a function stand for, ``self`` being an ``owner``."""
    known = {**inspect.getclosurevars(function).nonlocals, **function.__globals__, "self": owner, "cls": owner}
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            if node.attr in JUDGED:
                yield from (getattr(kind, node.attr) for kind in KINDS if hasattr(kind, node.attr))
            parts.insert(0, node.attr)
            node = node.value  # noqa: PLW2901 - down to the first name
        if not isinstance(node, ast.Name):
            continue
        found = known.get(node.id)
        for part in parts:
            found = getattr(found, part, None) if isinstance(found, type | ModuleType) else None
        yield found


@cache
def hashes(function: FunctionType, owner: type | None) -> bool:
    """Return whether anything that the function names, directly or by what it names, hashes."""
    seen: set[FunctionType] = set()
    left = [function]
    while left:
        one = inspect.unwrap(left.pop())
        if one in HASHING:
            return True
        if one in seen or not isinstance(one, FunctionType) or not one.__module__.startswith(OURS):
            continue
        seen.add(one)
        left.extend(found for found in named(one, owner) if isinstance(found, FunctionType))
    return False


def hashing_requests() -> set[str]:
    """Return every method and path outside the admin whose view can hash."""
    found = set()
    for path, callback in routes(urlpatterns):
        view = getattr(callback, "cls", None) or getattr(callback, "view_class", None)
        for method in METHODS:
            handler = getattr(view, method, None) if view else callback
            if isinstance(handler, FunctionType) and hashes(handler, view):
                found.add(f"{method.upper()} {path}")
    return found


@cache
def costly() -> Callable[[str], bool]:
    """Return the map of nginx: whether it counts a method and path as costly."""
    text = (DEPLOY / "nginx" / "ironauth.conf").read_text()
    block = text.partition('$uri" $ironauth_costly {')[2].partition("\n}")[0]
    rules = re.findall(r'^\s*"~(\^.*)" (\S+);', block, re.MULTILINE)
    assert rules
    assert {value for _, value in rules} == {"$ironauth_network"}
    return lambda asked: any(re.search(rule, asked) for rule, _ in rules)


@pytest.mark.live
def test_nginx_counts_whatever_hashes() -> None:
    """Every request whose view can hash is in the map, with any id in its path."""
    found = hashing_requests()
    assert found >= KNOWN
    assert not [asked for asked in sorted(found) if not costly()(asked)]


@pytest.mark.parametrize("asked", ["POST /admin/login/", "POST /admin/accounts/user/add/", "POST /account/signin"])
def test_nginx_counts_the_pages(asked: str) -> None:
    """The admin's forms sign in, confirm and set passwords; pages send messages."""
    assert costly()(asked)


@pytest.mark.parametrize(
    "asked",
    [
        "GET /api/v1/access/me", "GET /api/v1/access/verify", "POST /api/v1/access/refresh", "POST /oauth/token",
        "POST /api/v1/access/logout", "POST /oauth/introspect", "GET /api/v1/users", "PATCH /api/v1/access/me",
    ],
)  # fmt: skip
def test_nginx_leaves_alone_what_is_cheap(asked: str) -> None:
    """What applications ask all the time has the general limit only."""
    assert not costly()(asked)


def test_nothing_else_enters_the_hash_pool() -> None:
    """Outside of ``accounts.passwords`` nobody hands a job to the pool: the search above misses no way."""
    entering = [
        path
        for name in ("accounts", "tokens", "ironauth")
        for path in (DEPLOY.parent / name).rglob("*.py")
        if not {"tests", "infrastructure", "conftest.py"}.intersection(path.parts)
        and re.search(r"hash_pool\(\)\s*\.(run|run_blocking|raw_hash)\b", path.read_text())
    ]
    assert sorted(path.name for path in entering) == ["argon2.py", "hashing.py"]
