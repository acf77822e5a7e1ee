"""What staff can click in the admin, a token can call: every act of it, beside the operations of the API that do it."""

import json
from typing import Any, Final

import pytest
from django.contrib import admin
from django.test import RequestFactory

from accounts.users.models import User
from ironauth.pages import OPENAPI_FILE

#: What does not go through the API, and why.
REASONS: Final = {
    "accounts.User: <uuid:user_id>/sign-in-as/": "opens a session in the browser of a person who is told what they "
    "do there; a machine has no browser, and nobody else's account",
    "accounts.UpstreamProvider: <uuid:provider_id>/try/": "a whole sign-in at the provider, in the browser of who "
    "asks; POST /api/v1/providers/{slug}/try asks the provider without one",
    "accounts.UpstreamProvider: tried/<slug:slug>/": "where that sign-in comes back",
    "tokens.Session: end-everybody/": "a phrase that a person types; a leaked token must not sign everybody out, "
    "and machines of the operator have manage.py end_everybodys_sessions",
    "site: confirm/": "a proof of who sits at the admin; POST /api/v1/access/step-up is the API's",
    "site: confirm/code/": "as confirm/",
    "site: login/code/": "the admin's own sign-in; a token stands for it in the API",
    "site: login/set-up/": "as login/code/",
    "site: login/": "as login/code/",
    "site: logout/": "as login/code/",
    "site: password_change/": "one's own password: POST /api/v1/access/password",
}
#: The operations, by their ids, that do what an act of the admin does.
BY_API: Final = {
    "accounts.AuditEvent: export/<str:form>/": ("audit_export",),
    "accounts.Invitation: add": ("invitations_create",),
    "accounts.Invitation: send_again": ("invitations_send",),
    "accounts.Invitation: withdraw": ("invitations_withdraw",),
    "accounts.KeptDevice: end_devices": ("users_kept_devices_list", "users_kept_devices_end"),
    "accounts.Membership: add": ("staff_organizations_members_set",),
    "accounts.Membership: change": ("staff_organizations_members_list", "staff_organizations_members_set"),
    "accounts.Membership: delete": ("staff_organizations_members_remove",),
    "accounts.Organization: add": ("staff_organizations_create",),
    "accounts.Organization: change": ("staff_organizations_read", "staff_organizations_update"),
    "accounts.Organization: delete": ("staff_organizations_delete",),
    "accounts.OutgoingMail: try_again": ("users_messages_list", "users_messages_send"),
    "accounts.Role: add": ("roles_create",),
    "accounts.Role: change": ("roles_read", "roles_update"),
    "accounts.Role: delete": ("roles_delete",),
    "accounts.UpstreamProvider: add": ("providers_create",),
    "accounts.UpstreamProvider: change": ("providers_read", "providers_update"),
    "accounts.UpstreamProvider: delete": ("providers_delete",),
    "accounts.UpstreamProvider: try_now": ("providers_try",),
    "accounts.User: add": ("users_create",),
    "accounts.User: change": ("users_read", "users_update", "users_role_give", "users_role_take"),
    "accounts.User: delete": ("users_delete",),
    "accounts.User: <id>/password/": ("users_password_set",),
    "accounts.User: <uuid:user_id>/ways-in/": (
        "users_mfa", "users_mfa_passkeys_remove", "users_mfa_totp_remove", "users_identities_list",
        "users_identities_remove",
    ),
    "accounts.User: end_all_sessions": ("users_sessions_end",),
    "accounts.User: send_reset": ("users_act",),
    "accounts.User: resend_verification": ("users_act",),
    "accounts.User: require_password_change": ("users_act",),
    "accounts.User: accept_password": ("users_act",),
    "accounts.User: reset_mfa": ("users_mfa_reset",),
    "accounts.User: forgive_failures": ("users_failures_forgive",),
    "accounts.User: deactivate": ("users_update",),
    "accounts.User: activate": ("users_update",),
    "accounts.User: restore": ("users_restore",),
    "tokens.ApiResource: add": ("resources_create",),
    "tokens.ApiResource: change": ("resources_read", "resources_update"),
    "tokens.ApiResource: delete": ("resources_delete",),
    "tokens.DetailType: add": ("detail_types_create",),
    "tokens.DetailType: change": ("detail_types_read", "detail_types_update"),
    "tokens.DetailType: delete": ("detail_types_delete",),
    "tokens.Consent: revoke_consents": ("users_consents_list", "users_consents_revoke"),
    "tokens.OAuthClient: add": ("clients_create",),
    "tokens.OAuthClient: change": ("clients_read", "clients_update"),
    "tokens.OAuthClient: delete": ("clients_delete",),
    "tokens.OAuthClient: <uuid:client_id>/rotate-secret/": ("clients_secret_rotate",),
    "tokens.OAuthClient: <uuid:client_id>/disable/": ("clients_disable",),
    "tokens.OAuthClient: <uuid:client_id>/enable/": ("clients_enable",),
    "tokens.OAuthClient: <uuid:client_id>/verify/": ("clients_verify",),
    "tokens.RegistrationToken: add": ("registration_tokens_create",),
    "tokens.RegistrationToken: end_tokens": ("registration_tokens_end",),
    "tokens.Session: end_sessions": ("users_sessions_list", "users_session_end"),
    "tokens.SigningKey: drop_as_compromised": ("keys_drop",),
    "tokens.SigningKey: rotate/": ("keys_rotate",),
    "tokens.SigningKey: rotate/<slug:family>/": ("keys_rotate",),
}  # fmt: skip
#: Fields of a form that no operation takes, and why.
FIELDS: Final = {
    "accounts.User": {"user_permissions": "rights go by roles in the API: who has what is then seen in one list"},
}
#: Pages of Django's own that every model has, or the site; they change nothing by themselves.
_PAGES: Final = frozenset({
    "", "add/", "<path:object_id>/history/", "<path:object_id>/delete/", "<path:object_id>/change/",
    "<path:object_id>/", "password_change/done/", "autocomplete/", "jsi18n/",
    "r/<path:content_type_id>/<path:object_id>/", "(?P<url>.*)$",
})  # fmt: skip


@pytest.fixture
def request_of_root(db: None) -> Any:
    """Return a request by somebody who may do everything."""
    request = RequestFactory().get("/admin/")
    request.user = User.objects.create_superuser("root@example.com")
    return request


def acts_of(name: str, page: Any, request: Any) -> set[str]:
    """Return what can be done on the pages of one model."""
    found = {word for word in ("add", "change", "delete") if getattr(page, f"has_{word}_permission")(request)}
    found |= {one if isinstance(one, str) else one.__name__ for one in page.actions or ()}
    found |= {str(one.pattern) for one in page.get_urls()} - _PAGES
    return {f"{name}: {one}" for one in found}


def acts(request: Any) -> set[str]:
    """Return what can be done in the admin, by the model or the site."""
    lists = {f"{model._meta.app_label}/{model._meta.model_name}/" for model in admin.site._registry}
    site = {str(one.pattern) for one in admin.site.get_urls()} - _PAGES - lists
    found = {f"site: {one}" for one in site if not one.startswith("^(?P<app_label>")}
    for model, page in admin.site._registry.items():
        found |= acts_of(model._meta.label, page, request)
    return found


def test_every_act_of_the_admin_has_its_operation_or_a_reason(request_of_root: Any) -> None:
    """What is added to the admin is added to the API, or somebody says why not; nothing here is out of date."""
    assert acts(request_of_root) == BY_API.keys() | REASONS.keys()
    assert not BY_API.keys() & REASONS.keys()
    document = json.loads(OPENAPI_FILE.read_bytes())
    operations = {one["operationId"] for item in document["paths"].values() for one in item.values()}
    assert {one for ids in BY_API.values() for one in ids} <= operations


@pytest.mark.parametrize(
    ("label", "component"),
    [
        ("accounts.User", "PatchedUserPatchInputRequest"),
        ("accounts.Role", "PatchedRolePatchInputRequest"),
    ],
)
def test_every_field_of_a_form_is_one_of_the_body(request_of_root: Any, label: str, component: str) -> None:
    """By the same name or the API's; ``password`` has a page, and an operation, of its own."""
    (page,) = [one for model, one in admin.site._registry.items() if model._meta.label == label]
    ours = {"groups": "roles"}
    row = page.model(pk=None)
    fixed = set(page.get_readonly_fields(request_of_root, row))
    shown = {
        str(name)
        for _, options in page.fieldsets or page.get_fieldsets(request_of_root, row)
        for name in options["fields"]
        if name not in fixed | {"password"} | FIELDS.get(label, {}).keys()
    }
    schema = json.loads(OPENAPI_FILE.read_bytes())["components"]["schemas"][component]
    assert shown
    assert {ours.get(name, name) for name in shown} <= schema["properties"].keys()
