"""The guide to organisations: its request chooses one, its token says what it shows, its API refuses the others."""

import json
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest

from accounts.organizations import units as organizations
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.tests.docs.blocks import Guide
from ironauth.tests.docs.shell import shell
from tokens.access import codec

ABOUT = {"org_id", "org_roles"}


@pytest.mark.live
@pytest.mark.django_db(transaction=True)
async def test_the_guide_of_organisations(
    api: httpx.AsyncClient, member: dict[str, Any], pair: dict[str, Any], tmp_path: Path
) -> None:
    """The refresh of the page answers as a sign-in does, with the claims of the page; the API passes its tests."""
    person = uuid.UUID(member["id"])
    made = await database().write(organizations.create_organization, user_id=person, name="Acme")
    with Guide("docs/guides/organisations.md", ("acme-4f9k2x", made.slug)) as guide:
        asked, then = guide.block("POST /api/v1/access/refresh").splitlines()
        shown = json.loads(guide.block('{"org_id"'))
        guide.write(tmp_path, "app.py", "test_app.py")
    method, path, body = asked.split(maxsplit=2)
    answer = await api.request(method, path, json={**json.loads(body), "refresh_token": pair["refresh_token"]})
    assert then == "→ 200, as POST /api/v1/access/signin"
    assert answer.status_code == 200
    assert answer.json().keys() == pair.keys()
    said = codec.payload_of(answer.json()["access_token"])
    assert {name: said[name] for name in ABOUT} == {**shown, "org_id": str(made.organization_id)}
    shell("python -m pytest -q -p no:cacheprovider test_app.py", tmp_path)
