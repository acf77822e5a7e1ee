"""The colours of danger: what loses something declares it, its button has the class, and nothing else has."""

import re
from pathlib import Path

import pytest
from django.contrib import admin
from django.test import Client

import ironauth
from accounts.acts.changes import CHANGES
from accounts.conftest import MakeUser
from accounts.users.models import User
from ironauth.infrastructure.admin.actions import admin_action, is_danger, page_act
from ironauth.infrastructure.http.brand import LEAST_CONTRAST, contrast

pytestmark = pytest.mark.django_db

#: The acts by which something is lost: sessions, factors, accounts, consents, keys, clients.
LOSES = {
    "end_all_sessions", "require_password_change", "reset_mfa", "deactivate", "end_sessions", "revoke_consents",
    "drop_as_compromised", "end_devices", "withdraw", "end_tokens",
}  # fmt: skip
CSS = Path(ironauth.__file__).parent / "static/ironauth/admin.css"


def test_each_act_declares_it() -> None:
    """Every action of every list, by name; Django's own deletion, which declares nothing, always loses."""
    found = {}
    for model_admin in admin.site._registry.values():
        for act in model_admin.actions or ():
            function = getattr(model_admin, act) if isinstance(act, str) else act
            found[function.__name__] = is_danger(function)
    assert {name for name, danger in found.items() if danger} == LOSES
    assert {change.name for change in CHANGES} <= set(found)
    assert {"forgive_failures", "activate", "send_reset", "try_now", "restore"} <= set(found) - LOSES


def test_who_declares_nothing_is_an_error() -> None:
    """No default: who writes an act has to think of it."""
    with pytest.raises(TypeError, match="danger"):
        admin_action("Words", permission="change")  # type: ignore[call-arg] # what is tested
    with pytest.raises(TypeError, match="danger"):
        page_act()  # type: ignore[call-arg] # what is tested
    with pytest.raises(AttributeError):
        is_danger(lambda: None)


def test_views_behind_buttons_declare_it() -> None:
    """Each view of the admin that a button of ours posts to."""
    registry = {type(one).__name__: one for one in admin.site._registry.values()}
    client, keys = registry["OAuthClientAdmin"], registry["SigningKeyAdmin"]
    assert [is_danger(getattr(client, name)) for name in ("disable", "enable", "rotate_secret")] == [True, False, False]
    assert is_danger(getattr(keys, "rotate"))  # noqa: B009 - of that admin


def test_the_buttons_of_a_person(client: Client, make_user: MakeUser) -> None:
    """Those of acts that lose something, and *Delete*, have the class; *Forgive failures* and the others have not."""
    client.force_login(make_user(email="root@example.com", is_superuser=True, is_staff=True))
    user: User = make_user()
    text = client.get(f"/admin/accounts/user/{user.pk}/change/").content.decode()
    marked = set(re.findall(r'<input type="submit" value="([^"]+)" class="danger">', text))
    plain = set(re.findall(r'<input type="submit" value="([^"]+)">', text))
    assert marked == {"End all sessions", "Require password change", "Deactivate"}
    assert {"Forgive failures", "Send password reset"} <= plain
    assert len(re.findall(r"\bdanger\b", text)) == len(marked) + 1  # and Delete…
    assert '<a class="button danger"' in text


@pytest.mark.parametrize(("act", "marked"), [("deactivate", True), ("forgive_failures", False), ("send_reset", False)])
def test_the_question(client: Client, make_user: MakeUser, act: str, marked: bool) -> None:
    """The button that answers it has the class where the act declares it, and the page no other red."""
    client.force_login(make_user(email="root@example.com", is_superuser=True, is_staff=True))
    sent = {"action": act, "_selected_action": [str(make_user().pk)]}
    text = client.post("/admin/accounts/user/", sent).content.decode()
    assert ('class="danger"' in text) is marked
    assert "delete-confirmation" not in text


def test_the_colours() -> None:
    """One rule in the style sheet, for both themes; its text has enough contrast with it, pointed at too."""
    text = CSS.read_text()
    colours = dict(re.findall(r"--danger-([\w-]+): (#\w+);", text))
    assert set(colours) == {"bg", "hover-bg", "fg"}
    white = "#ffffff" if colours["fg"] == "#fff" else colours["fg"]
    for name in ("bg", "hover-bg"):
        assert contrast(white, colours[name]) >= LEAST_CONTRAST, name
    uses = [line for line in text.splitlines() if "var(--danger-bg)" in line]
    assert len(uses) == 2  # Django's variable, and the class
    assert all(".danger" in line or "--delete-button-bg" in line for line in uses)
