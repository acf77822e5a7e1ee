"""A client's page: its acts and how to use it first, forms behind tabs that change their own fields alone."""

import re

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from ironauth.infrastructure.admin.made_once import NEW_ID
from tokens.admin.clients import OAuthClientAdmin
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client

pytestmark = pytest.mark.django_db

TABS = ("overview", "use", "proof", "tokens", "all")
#: What each tab has to write in.
FIELDS = {
    tab.slug: {
        name
        for title, options in OAuthClientAdmin.fieldsets
        if title in tab.titles
        for name in options["fields"]
        if name not in {NEW_ID, *OAuthClientAdmin.readonly_fields}
    }
    for tab in OAuthClientAdmin.tabs
}


@pytest.fixture
def root(client: Client) -> User:
    """A superuser, signed in."""
    user = User.objects.create_superuser("root@example.com", "correct horse battery")
    client.force_login(user)
    return user


def page(row: OAuthClient, tab: str = "") -> str:
    return f"/admin/tokens/oauthclient/{row.pk}/change/{f'?tab={tab}' if tab else ''}"


def names(text: str) -> set[str]:
    """Return the fields of the page's own form."""
    form = text[text.index('id="oauthclient_form"') :]
    found = set(re.findall(r'<(?:input|select|textarea)[^>]* name="(\w+)"', form[: form.index("</form>")]))
    return found - {"csrfmiddlewaretoken", "_save", "_continue", "_addanother"}


def signed(row: OAuthClient) -> dict[str, str]:
    """Return what the tab of tokens sends of choices as they are."""
    return {name: getattr(row, name) for name in ("id_token_alg", "access_token_alg", "subject_type")}


def values(row: OAuthClient) -> dict[str, object]:
    """Return what is stored of a client that a form may change."""
    columns = OAuthClient._meta.concrete_fields
    return {one.name: getattr(row, one.name) for one in columns if one.name in FIELDS["all"]}


def test_every_part_is_on_one_tab() -> None:
    """And on the last one, which has all: a new part of the form is missed by nobody."""
    *parts, everything = OAuthClientAdmin.tabs
    titles = [title for title, _ in OAuthClientAdmin.fieldsets]
    assert sorted(map(str, (title for tab in parts for title in tab.titles))) == sorted(map(str, titles))
    assert list(everything.titles) == titles
    assert [tab.slug for tab in OAuthClientAdmin.tabs] == list(TABS)
    assert {"redirect_uris", "grants"} <= FIELDS["use"]  # one without the other is refused
    assert {"auth_method", "jwks", "request_object_signing_alg"} <= FIELDS["proof"]  # as above


def test_each_tab_has_its_fields(client: Client, root: User) -> None:
    """Every field is on one tab and on the last; an unknown tab is the first, which alone has acts and samples."""
    row, _ = make_client()
    for tab in (*TABS, "nothing"):
        text = client.get(page(row, tab)).content.decode()
        shown = tab if tab in TABS else "overview"
        assert names(text) == FIELDS[shown], tab
        assert re.findall(r'<a href="\?tab=(\w+)" aria-current="page">', text) == [shown]
        assert re.findall(r'<a href="\?tab=(\w+)"', text) == list(TABS)
        for act in ('id="rotate-heading"', 'id="try-heading"', 'value="Disable"', ">Delete…</a>"):
            assert (act in text) is (shown == "overview"), (tab, act)
        assert 'class="deletelink"' not in text


def test_a_new_client_has_one_form(client: Client, root: User) -> None:
    """Without tabs: it is made at once."""
    text = client.get("/admin/tokens/oauthclient/add/").content.decode()
    assert "?tab=" not in text
    assert names(text) >= FIELDS["all"]


def test_a_tab_changes_its_own_fields_alone(client: Client, root: User) -> None:
    """What another tab has stays, also a tick that is not sent; what another tab's form would set is not set."""
    there = ["https://app.example.com/"]
    row, _ = make_client(trusted=True, scopes=["openid", "email", "reports:read"], post_logout_redirect_uris=there)
    before = values(row)
    sent = {"name": "New", "trusted": "on", "scopes": "openid", "dpop": "on", "access_token_s": "60", "_continue": "1"}
    answer = client.post(page(row, "overview"), sent)
    assert (answer.status_code, answer.headers["location"]) == (302, page(row, "overview"))
    row.refresh_from_db()
    assert values(row) == before | {"name": "New"}
    sent = {"access_token_s": "120", **signed(row), "trusted": ""}
    assert client.post(page(row, "tokens"), sent).status_code == 302
    row.refresh_from_db()
    assert values(row) == before | {"name": "New", "access_token_s": 120}
    changed = [one.details["fields"] for one in AuditEvent.objects.filter(event="client_changed").order_by("id")]
    assert changed == [["name"], ["access_token_s"]]


def test_scopes_of_ones_own_stay(client: Client, root: User) -> None:
    """They are with the others on one tab."""
    row, _ = make_client(scopes=["openid", "reports:read"])
    sent = {
        "redirect_uris": "\n".join(row.redirect_uris),
        "grants": row.grants,
        "scopes": ["openid", "email"],
        "other_scopes": "reports:read",
    }
    assert client.post(page(row, "use"), sent).status_code == 302
    row.refresh_from_db()
    assert row.scopes == ["openid", "email", "reports:read"]


def test_a_rule_across_tabs_holds(client: Client, root: User) -> None:
    """What would be wrong on another tab is refused, and said; on the tab with every field both are changed."""
    row, _ = make_client(scopes=["openid"])
    proof = {
        "profile": row.profile, "auth_method": "none", "require_pkce": "on", "dpop": row.dpop,
        "authorization_signed_response_alg": row.authorization_signed_response_alg,
    }  # fmt: skip
    row.resource_server = True
    row.save()
    answer = client.post(page(row, "proof"), proof)
    assert answer.status_code == 200
    text = answer.content.decode()
    assert "on another tab: Anybody can claim to be a public client" in text
    row.refresh_from_db()
    assert row.auth_method == "secret"
    every = {
        **proof, "name": row.name, "redirect_uris": "\n".join(row.redirect_uris), "grants": row.grants,
        "scopes": "openid", "id_token_alg": row.id_token_alg, "subject_type": "public",
        "access_token_alg": row.access_token_alg,
    }  # fmt: skip
    assert client.post(page(row, "all"), every).status_code == 302
    row.refresh_from_db()
    assert (row.auth_method, row.resource_server) == ("none", False)


def test_what_is_wrong_already_hinders_no_other_tab(client: Client, root: User) -> None:
    """A rule may be newer than a client: its own tab is refused, and another one is saved."""
    row, _ = make_client()
    OAuthClient.objects.filter(pk=row.pk).update(access_token_s=1_000_000)
    assert client.post(page(row, "overview"), {"name": "New"}).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.access_token_s) == ("New", 1_000_000)
    sent = {"access_token_s": "1000000", **signed(row)}
    assert client.post(page(row, "tokens"), sent).status_code == 200


def test_an_error_stays_on_its_tab(client: Client, root: User) -> None:
    """With what was typed, next to its field."""
    row, _ = make_client()
    answer = client.post(page(row, "use"), {"redirect_uris": "ftp://x", "grants": row.grants, "scopes": "openid"})
    text = answer.content.decode()
    assert answer.status_code == 200
    assert "ftp://x" in text
    assert re.search(r'errorlist" id="id_redirect_uris_error"', text)
    assert 'tab=use" aria-current="page"' in text


def test_who_may_not_trust_gives_nothing_away_by_a_tab(client: Client) -> None:
    """The rules over what is a superuser's hold on each tab; a superuser's client has no form there."""
    user = User.objects.create_user("staff@example.com", "correct horse battery", is_staff=True)
    rights = Permission.objects.filter(codename__in=["change_oauthclient", "view_oauthclient"])
    user.user_permissions.add(*rights)
    client.force_login(user)
    row, _ = make_client()
    assert client.post(page(row, "overview"), {"name": row.name, "trusted": "on"}).status_code == 200
    sent = {
        "redirect_uris": "\n".join(row.redirect_uris), "grants": row.grants, "scopes": ["openid", "account"],
        "administers": "on",
    }  # fmt: skip
    assert client.post(page(row, "use"), sent).status_code == 200
    row.refresh_from_db()
    assert (row.trusted, row.administers, "account" in row.scopes) == (False, False, False)
    text = client.get(page(row)).content.decode()
    assert ">Delete…</a>" not in text
    OAuthClient.objects.filter(pk=row.pk).update(trusted=True)
    for tab in TABS:
        assert names(client.get(page(row, tab)).content.decode()) == set()
        assert client.post(page(row, tab), {"name": "Mine"}).status_code == 403


@pytest.mark.parametrize("changed", [True, False])
def test_its_history(client: Client, root: User, changed: bool) -> None:
    """What was changed here is listed by who did it; where nothing was, the page says where the rest is."""
    row, _ = make_client()
    if changed:
        client.post(page(row, "overview"), {"name": "New"})
    text = client.get(f"/admin/tokens/oauthclient/{row.pk}/history/").content.decode()
    assert ("<td>Changed Name.</td>" in text) is changed
    assert ('<a href="/admin/accounts/auditevent/">audit trail</a>' in text) is not changed
