"""Which codes are mistaken for one another, or follow one another: a page of one leads to the others.

Errors of OAuth endpoints are named as their places are: ``oauth-`` and the error.
"""

from typing import Final

from ironauth.config.error_codes import people

_GROUPS: Final = (
    {"bad_request", "bad_host", "bad_content_length", "http_version_not_supported"},
    {"body_too_large", "headers_too_large", "target_too_long", "request_timeout"},
    {"bad_request", "invalid", "parse_error", "unsupported_media_type"},
    {"not_found", "method_not_allowed", "permission_denied"},
    {"throttled", "overloaded", "unavailable", "oauth-temporarily_unavailable"},
    {"internal_error", "unavailable"},
    {"conflict", "precondition_failed", "rotation_refused"},
    {
        "idempotency_key_invalid", "idempotency_key_reused", "idempotency_in_flight",
        "idempotency_answer_not_repeated",
    },
    {"not_authenticated", "invalid_token", "two_credentials", "invalid_request", "metrics_token_required"},
    {"invalid_token", "invalid_refresh_token", "invalid_dpop_proof"},
    {"insufficient_scope", "permission_denied", "client_does_not_administer"},
    {"cross_origin", "not_authenticated"},
    {"delegated_token", "acting_session"},
    {"step_up_required", "mfa_enrolment_required", "mfa_required"},
    {"invalid_credentials", "mfa_required", "email_not_verified", "password_change_required"},
    people.OF_SECOND_FACTORS,
    {"invalid_email_code", "email_code_not_offered"},
    {"invalid_passkey", "passkey_not_made", "passkey_taken", "too_many_passkeys"},
    {"upstream_refused", "upstream_unavailable", "identity_taken"},
    {"no_upstream_token", "upstream_unavailable"},
    {"email_taken", "sign_up_closed", "invalid_invitation", "invitation_exists"},
    {"last_owner", "sole_owner", "organizations_by_staff"},
    {"invalid_invitation", "invitation_of_another", "already_member"},
    {"too_many_organizations", "too_many_members"},
    {"password_changed", "password_change_required"},
    {"last_way_in", "last_superuser", "provider_enabled"},
    {"mfa_already_enabled", "mfa_not_started", "mfa_not_enabled"},
    {"client_has_no_secret", "client_secret_replaced", "client_sessions_ending"},
    {"user_protected", "role_protected", "role_taken"},
    {"nothing_to_do", "deletion_pending", "user_protected"},
    {"oauth-invalid_request", "oauth-unsupported_grant_type", "oauth-unsupported_response_type"},
    {"oauth-invalid_client", "oauth-unauthorized_client"},
    {"oauth-invalid_grant", "oauth-expired_token", "oauth-invalid_client"},
    {"oauth-invalid_scope", "oauth-insufficient_scope", "oauth-invalid_target", "oauth-invalid_authorization_details"},
    {"oauth-invalid_token", "oauth-invalid_dpop_proof", "oauth-unsupported_token_type"},
    {"oauth-authorization_pending", "oauth-slow_down", "oauth-expired_token", "oauth-access_denied"},
    {
        "oauth-login_required", "oauth-consent_required", "oauth-access_denied",
        "oauth-unmet_authentication_requirements",
    },
    {
        "oauth-request_not_supported", "oauth-invalid_request_uri", "oauth-invalid_request_object",
        "oauth-request_uri_not_supported",
    },
    {"oauth-invalid_client_metadata", "oauth-invalid_redirect_uri", "oauth-registration_not_supported"},
)  # fmt: skip


def related(place: str) -> list[str]:
    """Return the places of the codes that belong to one, its namesake at the OAuth endpoints too.

    Args:
        place: Its own place: the code, with ``oauth-`` before it if it is an OAuth error.
    """
    near = {one for group in _GROUPS if place in group for one in group}
    return sorted(near - {place})
