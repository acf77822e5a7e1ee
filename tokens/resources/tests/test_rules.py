"""What a registered API may be, on both sides of each rule, and the command that registers one."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from tokens.clients import rules as client_rules
from tokens.clients.models import OAuthClient
from tokens.resources import identifiers, queries, rules
from tokens.resources.identifiers import MAX_ASKED, MAX_CHARACTERS
from tokens.resources.models import ApiResource

pytestmark = pytest.mark.django_db

ORDERS = "https://api.example.com/orders"


def an_api(**fields: Any) -> ApiResource:
    """Return an API that is not stored."""
    return ApiResource(**{"identifier": ORDERS, "name": "Orders", **fields})


def bad(**fields: Any) -> list[tuple[str, str]]:
    """Return which fields are refused, and by which code."""
    return [(one.field, one.code) for one in rules.problems_of(an_api(**fields))]


@pytest.mark.parametrize(
    "identifier",
    [
        ORDERS, "https://api.example.com", "http://localhost:3000/api", "https://api.example.com:8443/a%20b",
        "urn:orders",
        "api://orders", "https://[::1]/api", "https://10.0.0.1", "x:" + "a" * (MAX_CHARACTERS - 2),
    ],
)  # fmt: skip
def test_identifiers(identifier: str) -> None:
    """An absolute URI without fragment: RFC 8707 §2 asks for no more."""
    assert bad(identifier=identifier) == []


@pytest.mark.parametrize(
    "identifier",
    [
        "", "orders", "/orders", f"{ORDERS}#a", f"{ORDERS}?a=b", "https://api.example.com/", "HTTPS://api.example.com",
        "https://API.example.com", "https://me@api.example.com", "https://", "https:orders", f"{ORDERS} {ORDERS}",
        "https://api.example.com/ä", f"{ORDERS}\n", "https://api.example.com:0", "x:",
        "x:" + "a" * (MAX_CHARACTERS - 1),
        "http://localhost:8000",
    ],
)  # fmt: skip
def test_refused_identifiers(identifier: str) -> None:
    """Relative ones, fragments, two spellings of one address, and our own audience."""
    assert bad(identifier=identifier) == [("identifier", "identifier")]


def test_an_identifier_is_registered_once() -> None:
    """And what it is registered with may change."""
    stored = an_api()
    stored.save()
    assert bad() == [("identifier", "taken")]
    assert rules.problems_of(stored) == []


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"name": "x" * 80}, []),
        ({"name": "x" * 81}, [("name", "name")]),
        ({"name": ""}, [("name", "name")]),
        ({"name": "a\u202eb"}, [("name", "name_character")]),
        ({"scopes": ["orders:read"] + [f"s{n}" for n in range(49)]}, []),
        ({"scopes": [f"s{n}" for n in range(51)]}, [("scopes", "too_many")]),
        ({"scopes": ["a", "a"]}, [("scopes", "scopes")]),
        ({"scopes": ["a b"]}, [("scopes", "scopes")]),
        ({"scopes": ["a" * 64]}, []),
        ({"scopes": ["a" * 65]}, [("scopes", "scopes")]),
        ({"scopes": ["account"]}, [("scopes", "ours")]),
        ({"scopes": ["users:read"]}, [("scopes", "ours")]),
        ({"signing_alg": "none"}, [("signing_alg", "choice")]),
        ({"signing_alg": "RS256"}, [("signing_alg", "no_key")]),
    ],
)
def test_fields(fields: dict[str, Any], found: list[tuple[str, str]]) -> None:
    """Each is judged by itself."""
    assert bad(**fields) == found


def test_an_algorithm_with_a_key(rs256_key: str) -> None:
    """What there is a key for can be chosen."""
    assert bad(signing_alg="RS256") == []


def test_a_life_no_longer_than_the_setting(settings: Settings) -> None:
    """A key that has been replaced is kept for no longer than that."""
    most = settings.IRONAUTH_ACCESS_TOKEN_S
    assert bad(access_token_s=most) == bad(access_token_s=60) == bad(access_token_s=None) == []
    for seconds in (most + 1, 0):
        assert bad(access_token_s=seconds) == [("access_token_s", "range")]


def test_what_a_client_names_has_to_be_registered() -> None:
    """Our own audience needs no registration; what it serves is for a resource server."""
    an_api().save()
    client = OAuthClient(name="Shop", redirect_uris=["https://shop.example/cb"], id_token_alg="ed25519")

    def problems(**fields: Any) -> list[tuple[str, str]]:
        for name, value in {"resources": [], "serves": [], "resource_server": True, **fields}.items():
            setattr(client, name, value)
        return [(one.field, one.code) for one in client_rules.problems_of(client)]

    assert problems(resources=[ORDERS, "http://localhost:8000"], serves=[ORDERS]) == []
    assert problems(resources=["https://nobody.example"]) == [("resources", "unregistered")]
    assert problems(serves=["https://nobody.example"]) == [("serves", "unregistered")]
    assert problems(resources=[ORDERS, ORDERS]) == [("resources", "too_many")]
    assert problems(serves=[ORDERS], resource_server=False) == [("serves", "needless")]


def test_how_many_a_token_can_be_for() -> None:
    """The longest identifiers of all of them fit into what is stored; one more is refused."""
    names = [f"https://a{n}.example/".ljust(MAX_CHARACTERS, "x") for n in range(MAX_ASKED + 1)]
    for name in names:
        an_api(identifier=name).save()
    assert len(identifiers.joined(names[:MAX_ASKED])) <= identifiers.LIST_CHARACTERS
    found = queries.named(" ".join(names[:MAX_ASKED]), allowed=())
    assert found is not None
    assert len(found) == MAX_ASKED
    assert queries.named(" ".join(names), allowed=()) is None


def run(*arguments: str) -> Any:
    """Return what the command prints."""
    out = StringIO()
    call_command("api_resource", *arguments, stdout=out, stderr=StringIO(), no_color=True)
    return json.loads(out.getvalue())


def test_the_command() -> None:
    """It registers, lists, switches off and on, and deletes; each leaves one event."""
    made = run("create", "--identifier", ORDERS, "--name", "Orders", "--scope", "orders:read orders:write")
    assert made == {
        "identifier": ORDERS, "name": "Orders", "scopes": ["orders:read", "orders:write"], "signing_alg": "ed25519",
        "access_token_s": None, "for_self_registered": False, "active": True,
    }  # fmt: skip
    assert run("list") == [made]
    assert run("disable", ORDERS)["active"] is False
    assert run("disable", ORDERS)["active"] is False
    assert run("enable", ORDERS)["active"] is True
    assert run("delete", ORDERS) == {"identifier": ORDERS, "deleted": True}
    events = AuditEvent.objects.order_by("pk").values_list("event", flat=True)
    assert list(events) == ["resource_created", "resource_changed", "resource_changed", "resource_deleted"]
    assert run("create", "--identifier", ORDERS, "--name", "O", "--for-self-registered")["for_self_registered"] is True
    run("delete", ORDERS)
    for arguments in (
        ("create", "--identifier", "orders", "--name", "Orders"), ("disable", ORDERS), ("delete", ORDERS),
    ):  # fmt: skip
        with pytest.raises(CommandError):
            run(*arguments)


@pytest.mark.storage
def test_what_no_database_takes_names_no_api() -> None:
    """NUL in an identifier, which PostgreSQL refuses to compare, is an API that is not registered."""
    an_api().save()
    assert queries.named(ORDERS, allowed=()) is not None
    assert queries.named(f"{ORDERS}\0", allowed=()) is None
