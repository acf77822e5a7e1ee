"""What every view of staff asks before anything else; no view can leave it out."""

import httpx
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from rest_framework.permissions import AllowAny, IsAuthenticated

from accounts.access.permissions import StaffPermission, StaffView, UserPermission
from accounts.access.scopes import SCOPES, scope_of
from ironauth.tests.sweep import METHODS

STAFF = "api/v1/"
OF_PEOPLE = "api/v1/access/"
#: Beneath /api/v1/: what members ask of their organisations.
OF_MEMBERS = "organizations"
IDS = {
    "user_id": "01a20000-0000-7000-8000-000000000000",
    "invitation_id": "01a20000-0000-7000-8000-000000000001",
    "role": "editors",
    "act": "send-reset",
    "client_id": "01a20000-0000-7000-8000-000000000002",
    "kid": "key",
    "slug": "acme",
    "organization_id": "01a20000-0000-7000-8000-00000000000b",
    "message_id": "01a20000-0000-7000-8000-000000000003",
    "session_id": "01a20000-0000-7000-8000-000000000004",
    "device_id": "01a20000-0000-7000-8000-000000000005",
    "passkey_id": "01a20000-0000-7000-8000-000000000006",
    "identity_id": "01a20000-0000-7000-8000-000000000007",
    "token_id": "01a20000-0000-7000-8000-000000000008",
    "resource_id": "01a20000-0000-7000-8000-000000000009",
    "type_id": "01a20000-0000-7000-8000-00000000000a",
}


def staff_patterns() -> list[URLPattern]:
    """Return the patterns under /api/v1/ that are not for people about themselves."""
    found: list[URLPattern] = []
    for one in get_resolver().url_patterns:
        if isinstance(one, URLResolver) and str(one.pattern).startswith(STAFF) and str(one.pattern) != OF_PEOPLE:
            found.extend(pattern for pattern in one.url_patterns if isinstance(pattern, URLPattern))
    return [pattern for pattern in found if not str(pattern.pattern).startswith(OF_MEMBERS)]


def test_every_path_of_staff_has_a_view_of_staff() -> None:
    """What is under /api/v1/, and not for people about themselves and their organisations, is a StaffView."""
    views = {pattern.name: pattern.callback.cls for pattern in staff_patterns()}  # type: ignore[attr-defined] # DRF's
    assert len(views) >= 7
    assert {name for name, view in views.items() if not issubclass(view, StaffView)} == set()


def test_every_act_of_staff_has_a_scope() -> None:
    """One that is added without is refused to every token but those of an account's own sign-in."""
    for pattern in staff_patterns():
        view = pattern.callback.cls  # type: ignore[attr-defined] # DRF's
        rights = [one for one in view.permission_classes if issubclass(one, StaffPermission)]
        for method in set(METHODS) - {"HEAD", "OPTIONS"}:
            if hasattr(view, method.lower()):
                needed = [one.needed[method] for one in rights]
                assert [scope_of(right) in SCOPES for right in needed] == [True], (view, method)


@pytest.mark.parametrize(
    "permissions",
    [(UserPermission,), (UserPermission, IsAuthenticated), (IsAuthenticated,), (AllowAny, UserPermission), ()],
)
def test_a_view_of_staff_without_it_cannot_be_made(permissions: tuple[type, ...]) -> None:
    """IsAuthenticated comes first and a right of staff after it: any other order or choice is refused at import."""
    assert type("Right", (StaffView,), {"permission_classes": (IsAuthenticated, UserPermission)})
    with pytest.raises((ImproperlyConfigured, ValueError)):
        type("Wrong", (StaffView,), {"permission_classes": permissions})


@pytest.mark.django_db(transaction=True)
async def test_a_stranger_is_asked_who_they_are(api: httpx.AsyncClient) -> None:
    """Each method of each path of staff answers 401 with a challenge to a request without credential."""
    for pattern in staff_patterns():
        names = pattern.pattern.converters
        path = reverse(f"staff:{pattern.name}", kwargs={name: IDS[name] for name in names})
        for method in METHODS:
            answer = await api.request(method, path)
            assert (answer.status_code, "www-authenticate" in answer.headers) == (401, True), (method, path)
