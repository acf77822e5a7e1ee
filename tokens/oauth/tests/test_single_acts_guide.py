"""The guide for rich authorization requests, as its reader pastes it: from the type to the check in the API."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from ironauth.tests.docs.blocks import Guide
from ironauth.tests.docs.shell import commands
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.flow import Party
from tokens.oauth.tests.walk import answered, authorize, by_password, is_page, say
from tokens.oauth.token.tests.test_token_code import said
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True)]

TYPED = ".venv/bin/python manage.py"
CALLBACK = "https://shop.example.com/callback"


async def test_the_guide_can_be_pasted(
    api: httpx.AsyncClient, member: Member, signing_key: str, rs256_key: str, tmp_path: Path
) -> None:
    """The person reads the payment of the page, and the API's check lets it and no other pass."""
    with Guide("docs/guides/single-acts.md") as guide:
        made = await sync_to_async(commands)(guide.block(f"{TYPED} authorization_details_type"), tmp_path)
        assert json.loads(made)["identifier"] == "payment_initiation"
        shop = json.loads(await sync_to_async(commands)(guide.block(f"{TYPED} oauth_client"), tmp_path))
        details = guide.block('[{"type"')
        checks: dict[str, Any] = {}
        exec(guide.file("payments.py"), checks)  # noqa: S102 - a block of our own page
    client = await OAuthClient.objects.aget(pk=shop["client_id"])
    asked = {"scope": None, "redirect_uri": CALLBACK, "authorization_details": details.strip()}
    page = await by_password(api, await authorize(api, client, **asked), member["email"])
    assert is_page(page, 200, "12.50", "Zoé &amp; Sons", "Order 4711")
    code = answered(await say(api, page, "allow"), CALLBACK)["code"]
    answer = await Party(api, client, shop["client_secret"]).redeem(code, redirect_uri=CALLBACK)
    assert answer.json()["authorization_details"] == json.loads(details)
    claims, payment = said(answer.json()["access_token"]), {"currency": "EUR", "creditor": "Zoé & Sons"}
    assert checks["is_allowed"](claims, amount="12.50", **payment)
    assert not checks["is_allowed"](claims, amount="12.51", **payment)
    assert not checks["is_allowed"]({}, amount="12.50", **payment)
