"""What people say of themselves beside their address: what is accepted, who sees it, and when."""

import re
import tomllib
import zoneinfo
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.core.exceptions import ValidationError

from accounts.audit.models import AuditEvent
from accounts.profile import FIELDS, fitting, places, validate_zone, zones
from accounts.users.models import User
from conftest import bearer

ME, LANGUAGE = "/api/v1/access/me", "/api/v1/access/me/language"
PROFILE = {"given_name": "Zoë", "family_name": "Lee", "preferred_username": "zoe", "zoneinfo": "Europe/Berlin"}


def test_zones_fit_their_column() -> None:
    """Every time zone that is known has room, and the page proposes places, not offsets."""
    assert max(map(len, zones())) <= 64
    assert {"Europe/Berlin", "America/Argentina/Buenos_Aires"} <= set(places()) <= zones()
    assert not {"Etc/GMT+1", "UTC", "US/Pacific"} & set(places())


@pytest.mark.parametrize("zone", ["", "UTC", "GMT+0", "Europe/Kyiv", "Europe/Kiev", "America/Buenos_Aires"])
def test_zones_of_the_database_are_taken(zone: str) -> None:
    """So are the older names, which are links to others."""
    validate_zone(zone)


@pytest.mark.parametrize(
    "zone", ["localtime", "Factory", "posixrules", "leapseconds", "europe/berlin", "Europe", "../UTC"]
)
def test_what_is_no_zone_of_the_database_is_refused(zone: str) -> None:
    """The folder on a machine has more files: its own zone and the one of nowhere say nothing to a client."""
    with pytest.raises(ValidationError):
        validate_zone(zone)


@pytest.fixture
def no_folder() -> Iterator[None]:
    """Take the machine's folder of zones away."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=())
    yield
    zoneinfo.reset_tzpath(to=before)


@pytest.mark.usefixtures("no_folder")
def test_zones_are_known_without_the_machine() -> None:
    """Where the machine has no folder of zones, the package has all of them; so the product requires it everywhere."""
    known = zones.__wrapped__()
    assert {"Europe/Berlin", "Europe/Kiev", "UTC"} <= known
    assert not {"localtime", "Factory"} & known
    project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())["project"]
    assert any(re.fullmatch(r"tzdata>=[\d.]+", one) for one in project["dependencies"])


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({}, {}),
        (PROFILE, PROFILE),
        ({"given_name": " Zoe\u0308 "}, {"given_name": "Zoë"}),
        ({"family_name": "x" * 150}, {"family_name": "x" * 150}),
        ({"family_name": "\ufeff\u200f", "given_name": "A"}, {"given_name": "A"}),
        ({"family_name": "x" * 151, "given_name": "A"}, {"given_name": "A"}),
        ({"given_name": "a\x00b", "zoneinfo": "Mars/Base", "preferred_username": 7}, {}),
        ({"given_name": "", "zoneinfo": None, "family_name": ["Lee"]}, {}),
        ({"language": "de"}, {"language": "de"}),
        ({"language": "de-AT"}, {"language": "de"}),
        ({"language": "FR_ca"}, {"language": "fr"}),
        ({"language": "xx"}, {}),
        ({"is_staff": "1", "email": "a@example.com"}, {}),
    ],
)
def test_what_is_taken_over_from_elsewhere(told: dict[str, Any], kept: dict[str, str]) -> None:
    """Another system's values are taken where an account may have them, each for itself."""
    assert fitting(told) == kept


@pytest.mark.storage
@pytest.mark.django_db(transaction=True)
async def test_they_are_changed_together_and_alone(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """What is sent is set and seen at once; what is absent stays; the trail names the fields."""
    header = bearer(pair)
    assert (await api.get(ME, headers=header)).json()["given_name"] == ""  # kept by the caches from here on
    changed = await api.patch(
        ME, json={**PROFILE, "locale": "de", "updated_at": "2001-01-01T00:00:00Z"}, headers=header
    )
    assert changed.status_code == 200
    assert changed.json() == changed.json() | PROFILE | {"locale": ""}
    assert (await api.get(ME, headers=header)).json() == changed.json()
    event = await AuditEvent.objects.aget(event="profile_changed")
    assert event.details["fields"] == sorted(PROFILE)
    one = (await api.patch(ME, json={"given_name": ""}, headers=header)).json()
    assert one == changed.json() | {"given_name": "", "updated_at": one["updated_at"]}


@pytest.mark.storage
@pytest.mark.django_db(transaction=True)
async def test_the_language_is_seen_at_once(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """`locale` is the language that pages and messages have, also for a token whose answer was kept."""
    header = bearer(pair)
    for chosen in ("fr", "de", ""):
        assert (await api.put(LANGUAGE, json={"language": chosen}, headers=header)).status_code == 200
        assert (await api.get(ME, headers=header)).json()["locale"] == chosen


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", ["a\x00b", "x" * 151, "\u200b\u3164", 7, None, ["a"]])
async def test_what_they_may_not_be(api: httpx.AsyncClient, pair: dict[str, Any], field: str, value: Any) -> None:
    """A value that no account may have is refused by its field, and nothing is changed."""
    refused = await api.patch(ME, json={**PROFILE, field: value}, headers=bearer(pair))
    assert refused.status_code == 400
    assert [error["field"] for error in refused.json()["errors"]] == [field]
    assert not await User.objects.exclude(given_name="", family_name="", zoneinfo="").aexists()
