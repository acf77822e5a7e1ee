"""A new client of each kind of application: a name, and an address where people come back, are enough."""

import json
import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from tokens.admin.clients import OAuthClientAdmin
from tokens.clients.models import OAuthClient
from tokens.clients.presets import PRESETS, Preset
from tokens.clients.tests.test_client_rules import EC_JWK
from tokens.oauth.tests.material import ED25519_JWK

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("rs256_key")]
ADD = "admin:tokens_oauthclient_add"


@pytest.fixture
def superuser(client: Client) -> None:
    """Sign a superuser in."""
    people: Any = get_user_model()
    client.force_login(people.objects.create_superuser("root@example.com", PASSWORD, email_verified_at=clock.now()))


def _sent(page: Any, preset: Preset) -> dict[str, Any]:
    """Return what a browser sends of the form as it came."""
    form = page.context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    sent = {name: value for name, value in values.items() if value not in (None, False, "")}
    for name in ("redirect_uris", "post_logout_redirect_uris", "other_scopes", "jwks"):
        sent[name] = ""
    sent |= {"name": "Wiki", "redirect_uris": "https://wiki.example.com/callback" if preset.redirects else ""}
    return {name: "on" if value is True else value for name, value in sent.items()}


@pytest.mark.parametrize("name", PRESETS)
def test_a_client_of_each_kind(client: Client, superuser: None, name: str) -> None:
    """The form as it comes, with a name and an address, makes a client of the kind; what is answered is folded.

    One that signs who it is needs its keys too.
    """
    preset, address = PRESETS[name], f"{reverse(ADD)}?preset={name}"
    signs = preset.initial["auth_method"] == "private_key_jwt"
    page = client.get(address)
    text = page.content.decode()
    assert f'<a href="?preset={name}" aria-current="true">{preset.words}</a>' in text
    assert text.count("<details><summary>") == len(OAuthClientAdmin.fieldsets) - 1 - preset.redirects - signs
    keys = json.dumps({"keys": [EC_JWK if "signing" in name else ED25519_JWK]}) if signs else ""
    answer = client.post(address, {**_sent(page, preset), "jwks": keys})
    assert answer.status_code in (200, 302), answer.content
    made = OAuthClient.objects.get(name="Wiki")
    assert sorted(made.grants) == sorted(preset.initial["grants"])
    assert sorted(made.scopes) == sorted(preset.initial["scopes"])
    assert (made.auth_method, made.profile) == (preset.initial["auth_method"], preset.initial["profile"])
    assert made.require_pkce is preset.initial["require_pkce"]
    assert made.resource_server is preset.initial.get("resource_server", False)
    shows_secret = re.search(r"<dt>client_secret</dt>", answer.content.decode()) is not None
    assert shows_secret is (made.auth_method == OAuthClient.AuthMethod.SECRET)


@pytest.mark.parametrize("query", ["", "?preset=", "?preset=nothing"])
def test_without_a_kind_the_whole_form_is_there(client: Client, superuser: None, query: str) -> None:
    """Nothing is chosen, and nothing is folded; a client that exists is offered no kinds."""
    text = client.get(reverse(ADD) + query).content.decode()
    assert text.count('<a href="?preset=') == len(PRESETS)
    assert 'aria-current="true"' not in text
    assert "<details><summary>" not in text
