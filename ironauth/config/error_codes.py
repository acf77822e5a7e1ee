"""Every ``code`` of a problem and every ``error`` of an OAuth endpoint, each with what it means and its remedy.

The page of error codes is made from this table, here (``/api/errors``) and in the documentation. A test compares it
with the code and with the OpenAPI document: what is answered stands here, and what stands here is answered.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

#: The page of this host that explains them; ``type`` of a problem document is this path with the code as fragment.
PAGE: Final = "/api/errors"


class ErrorCode(NamedTuple):
    """One code: the statuses it is answered with, what has happened, and what the caller does about it.

    ``members``: what its problem has beside the usual members (RFC 9457 §3.2), as an example of the OpenAPI document.
    """

    code: str
    statuses: tuple[int, ...]
    meaning: str
    remedy: str
    members: Mapping[str, object] = MappingProxyType({})


#: Codes that the server gives before an operation is chosen, so that each operation may answer them.
_ANYWHERE: Final = (
    ErrorCode("bad_request", (400,),
        "The request is no well-formed HTTP, or its cookies, query or form cannot be read.",
        "Send the request as HTTP/1.1 (RFC 9112), text in UTF-8 and each field once."),
    ErrorCode("bad_host", (400,),
        "The Host header field is missing, is sent twice, or names a host that this server does not serve.",
        "Use the address of the issuer. Operators list the names of the server in ALLOWED_HOSTS."),
    ErrorCode("bad_content_length", (400,),
        "The Content-Length header field is not one whole number.",
        "Send the number of bytes of the body, once."),
    ErrorCode("not_found", (404,),
        "There is no such path, or no such thing for this caller. Another person's things are not found either.",
        "Check the path and the identifier, and that the caller may see it."),
    ErrorCode("method_not_allowed", (405,),
        "The path exists and does not offer this method.",
        "Use one of the methods in the Allow header field."),
    ErrorCode("request_timeout", (408,),
        "The request was not complete within its time: 10 seconds for a body.",
        "Send it again on a new connection, and send it faster."),
    ErrorCode("body_too_large", (413,),
        "The body is larger than 64 KiB.",
        "Send less. No operation of this API needs more."),
    ErrorCode("target_too_long", (414,),
        "The URL is too long.",
        "Send less in the query. Long requests to authorize go to /oauth/par first (RFC 9126)."),
    ErrorCode("unsupported_media_type", (415,),
        "The body is of a type, charset or coding that this operation does not read.",
        "Send JSON (or a form, where the operation says it), in UTF-8 and without Content-Encoding."),
    ErrorCode("headers_too_large", (431,),
        "The header fields are larger than 16 KiB together, or are more than 100.",
        "Send fewer. Old cookies of the same host are the usual cause."),
    ErrorCode("internal_error", (500,),
        "The server has failed. The cause is in its log under the request_id.",
        "Try again later, and tell the operator the request_id."),
    ErrorCode("overloaded", (503,),
        "The server is busy and has refused at once instead of letting the request wait.",
        "Try again after as many seconds as Retry-After says."),
    ErrorCode("unavailable", (503,),
        "Something that the answer depends on cannot be reached: the database, or a key to sign tokens with.",
        "Try again after as many seconds as Retry-After says."),
    ErrorCode("http_version_not_supported", (505,),
        "The request is of another version of HTTP.",
        "Send HTTP/1.1 or HTTP/1.0. A proxy in front may speak HTTP/2."),
)  # fmt: skip

_INPUT: Final = (
    ErrorCode("invalid", (400,),
        "One or more fields are bad. errors has every one of them with its name, a code and a sentence.",
        "Correct the fields that are named in errors.",
        {"errors": [{
            "field": "email", "code": "email_invalid", "message": "Enter an e-mail address such as name@example.com.",
        }]}),
    ErrorCode("parse_error", (400,),
        "The body is no JSON object, or no form in UTF-8.",
        "Send one JSON object in UTF-8, each member once."),
    ErrorCode("conflict", (409,),
        "The request contradicts the present state.",
        "Read the state again, then decide."),
    ErrorCode("precondition_failed", (412,),
        "The resource has changed since the answer whose ETag was sent as If-Match, or If-None-Match names its state.",
        "Read it again, make the change on what it is now, and send the new ETag."),
    ErrorCode("idempotency_key_invalid", (400,),
        "The Idempotency-Key header field has no key, one of more than 255 characters, or several.",
        "Send one key of printable ASCII characters, such as a new UUID, with or without quotes."),
    ErrorCode("idempotency_key_reused", (422,),
        "The Idempotency-Key was sent with another request: another path, or another body.",
        "Make a new key for each request. Repeat a request with the very bytes of its body."),
    ErrorCode("idempotency_in_flight", (409,),
        "The first request with this Idempotency-Key is not finished.",
        "Send it again after as many seconds as Retry-After says."),
    ErrorCode("idempotency_answer_not_repeated", (409,),
        "The first request with this Idempotency-Key was carried out. Its answer had a secret, which is not stored.",
        "Read what is at Location, and have another secret made."),
    ErrorCode("throttled", (429,),
        "There were too many requests, or too many wrong ones, from this client or for this account.",
        "Wait for as many seconds as Retry-After says. RateLimit-Policy has the rule."),
)  # fmt: skip

_CREDENTIALS: Final = (
    ErrorCode("not_authenticated", (401,),
        "The request has no credential.",
        "Send `Authorization: Bearer` with an access token, or the cookie of a sign-in."),
    ErrorCode("invalid_token", (400, 401),
        "401: the access token is invalid, has expired or was revoked. 400: the token of a message is no longer good.",
        "401: refresh it, or sign in again. 400: ask for another message."),
    ErrorCode("invalid_dpop_proof", (401,),
        "The DPoP proof is missing, is for another request, is too old, or was used before (RFC 9449).",
        "Make a new proof for each request."),
    ErrorCode("invalid_request", (400,),
        "The Authorization header field is malformed.",
        "Send it once, as `Authorization: Bearer` and the access token."),
    ErrorCode("two_credentials", (400,),
        "The request has more than one access credential, or a cookie of this site twice.",
        "Send either the Authorization header field or the cookie. A browser may have to clear its cookies."),
    ErrorCode("cross_origin", (403,),
        "A request with a cookie changes something and comes from another origin.",
        "Send it from the same origin. Operators list other origins in IRONAUTH_TRUSTED_ORIGINS."),
    ErrorCode("insufficient_scope", (403,),
        "The access token was not given for this.",
        "Have the application ask for the scope that WWW-Authenticate names."),
    ErrorCode("delegated_token", (403,),
        "A token that was got in exchange (RFC 8693) reads an account and changes nothing.",
        "Use a token that the person has signed in with."),
    ErrorCode("acting_session", (403,),
        "A member of staff has signed in as this person: such a session reads and changes nothing.",
        "End that session first."),
    ErrorCode("permission_denied", (403,),
        "The caller is known and may not do this.",
        "Have somebody give the caller the permission, by a role."),
    ErrorCode("step_up_required", (401,),
        "The act needs a proof of who the person is that is not older than some minutes.",
        "Send the password or a second factor to POST /api/v1/access/step-up, then repeat the request."),
    ErrorCode("mfa_enrolment_required", (403,),
        "Staff need a second factor on this server, and this session has none.",
        "Set one up (POST /api/v1/access/mfa/totp), then sign in or step up with it."),
)  # fmt: skip

_SIGN_IN: Final = (
    ErrorCode("invalid_credentials", (401,),
        "The address or the password is wrong, or the account may not sign in. The answer never says which.",
        "Check both and try again, or ask for a new password."),
    ErrorCode("mfa_required", (401,),
        "The password was right, and the account has a second factor.",
        "Send mfa_token and a code of one of methods to POST /api/v1/access/signin/mfa.",
        {"mfa_token": "AZ0kq3…", "methods": ["totp", "recovery_code"]}),
    ErrorCode("invalid_mfa_token", (401,),
        "The mfa_token is invalid, has expired or was used before.",
        "Sign in with the password again."),
    ErrorCode("invalid_mfa_code", (401,),
        "The code is wrong, too old, was used before, or is of a factor that the person does not have.",
        "Wait for the next code, or use a recovery code."),
    ErrorCode("invalid_email_code", (401,),
        "The code of the message is wrong, has expired, was used, or was typed wrong too often.",
        "Check it, or ask for a new message."),
    ErrorCode("email_code_not_offered", (409,),
        "A code by e-mail needs a proved address. Who has a password may step up by one where people sign in by e-mail "
        "and there is no second factor.",
        "Use another way to sign in or to confirm."),
    ErrorCode("invalid_passkey", (401,),
        "The passkey was not accepted: it is unknown, for another site, or its challenge is too old.",
        "Ask for new options and try again, or sign in another way."),
    ErrorCode("invalid_refresh_token", (401,),
        "The refresh token is invalid, has expired, was used before, or its session has ended.",
        "Sign in again. Keep only the newest refresh token."),
    ErrorCode("email_not_verified", (403,),
        "The address of the account has not been proved. Only a right password or passkey hears this.",
        "Open the link of the message, or ask for another one."),
    ErrorCode("password_change_required", (403,),
        "The account needs a new password before it can sign in.",
        "Ask for a reset (POST /api/v1/access/password/reset) and choose one."),
    ErrorCode("totp_unreadable", (503,),
        "Codes of the app cannot be checked at the moment: the key that seals their secrets is missing.",
        "Use a recovery code or a passkey. Operators restore the master key."),
    ErrorCode("upstream_refused", (401,),
        "The other provider did not confirm who the person is.",
        "Begin again, or sign in another way."),
    ErrorCode("upstream_unavailable", (503,),
        "The other provider does not answer.",
        "Try again in a minute, or sign in another way."),
)  # fmt: skip

_ACCOUNT: Final = (
    ErrorCode("email_taken", (409,),
        "An account with this address exists.",
        "Sign in to it, or use another address."),
    ErrorCode("sign_up_closed", (403,),
        "Nobody can sign up here without being invited.",
        "Ask staff for an account or an invitation."),
    ErrorCode("invalid_invitation", (400,),
        "The invitation is invalid, has expired, was used, or was withdrawn.",
        "Use the link of the newest message, or ask for another invitation."),
    ErrorCode("password_changed", (409,),
        "Another request has changed the password at the same time.",
        "Sign in with the new password."),
    ErrorCode("last_way_in", (409,),
        "Without this one the person could not sign in any more.",
        "Set a password or add another way to sign in first."),
    ErrorCode("identity_taken", (409,),
        "The identity belongs to another account, or the account has one of the same provider.",
        "Remove the other connection first."),
    ErrorCode("mfa_already_enabled", (409,),
        "One-time codes are set up.",
        "Remove the app first to use another one."),
    ErrorCode("mfa_not_started", (409,),
        "There is no new secret to confirm.",
        "Ask for one first: POST /api/v1/access/mfa/totp."),
    ErrorCode("mfa_not_enabled", (409,),
        "The account does not have this second factor.",
        "GET /api/v1/access/mfa lists those it has."),
    ErrorCode("passkey_not_made", (400,),
        "The answer of the authenticator was not accepted.",
        "Ask for new options and try again."),
    ErrorCode("passkey_taken", (409,),
        "The passkey is registered already.",
        "Use it, or register another one."),
    ErrorCode("too_many_passkeys", (409,),
        "The account has as many passkeys as it may have.",
        "Remove one first."),
)  # fmt: skip

_STAFF: Final = (
    ErrorCode("last_superuser", (409,),
        "This is the last active superuser.",
        "Make another one first (manage.py createsuperuser)."),
    ErrorCode("client_does_not_administer", (403,),
        "A client calls an act of staff with a token of its own, and nobody has let it administer.",
        "Have a superuser let it: on its page in the admin."),
    ErrorCode("client_has_no_secret", (409,),
        "The client proves who it is by something else than a secret.",
        "Change its auth_method to secret first, or replace its keys."),
    ErrorCode("client_secret_replaced", (409,),
        "The client has a newer secret than the one that `newest` names.",
        "Read the client again. Another request, or the same one before, has replaced the secret."),
    ErrorCode("rotation_refused", (409,),
        "The keys are not rotated: clients may not know the next key yet, or there is no such key in use.",
        "The detail says for how many seconds to wait, or what is missing."),
    ErrorCode("provider_enabled", (409,),
        "People may sign in with the provider that is to be deleted.",
        "Switch it off first (enabled: false), which says who is left without a way in."),
    ErrorCode("nothing_to_do", (409,),
        "The act would change nothing about the account as it is now, or the account is being deleted.",
        "Read the user: it is as wanted, or the account has to be restored first."),
    ErrorCode("user_protected", (409,),
        "Rows of another application refer to the account and forbid its deletion.",
        "Remove them there first, or deactivate the account."),
    ErrorCode("role_protected", (409,),
        "Rows of another application refer to the role and forbid its deletion.",
        "Remove them there first."),
    ErrorCode("deletion_pending", (409,),
        "The owner has deleted the account, and it waits to be removed.",
        "Restore it first (in the admin), or delete it for good."),
    ErrorCode("role_taken", (409,),
        "A role with this name exists.",
        "Use it, or choose another name."),
    ErrorCode("invitation_exists", (409,),
        "An invitation to this address waits for an answer.",
        "Send it again, or withdraw it first."),
    ErrorCode("metrics_token_required", (401,),
        "/metrics is open to callers with its token only.",
        "Send IRONAUTH_METRICS_TOKEN as Bearer token."),
)  # fmt: skip

#: Each chapter of the page, with its codes.
CHAPTERS: Final[dict[str, tuple[ErrorCode, ...]]] = {
    "Before an operation is reached": _ANYWHERE,
    "What is sent": _INPUT,
    "Credentials and permissions": _CREDENTIALS,
    "Signing in": _SIGN_IN,
    "One's own account": _ACCOUNT,
    "Staff and operators": _STAFF,
}
CODES: Final[dict[str, ErrorCode]] = {one.code: one for codes in CHAPTERS.values() for one in codes}

#: ``error`` of the endpoints below /oauth/ and of redirects to clients (RFC 6749 §5.2, the registry of OAuth errors).
OAUTH_ERRORS: Final[dict[str, ErrorCode]] = {
    one.code: one
    for one in (
        ErrorCode("invalid_request", (400, 405),
            "The request lacks a parameter, repeats one, or is malformed. 405: the method is another one.",
            "Compare it with the description of the endpoint. error_description names the parameter."),
        ErrorCode("invalid_client", (401,),
            "The client is unknown or disabled, or its credentials are wrong.",
            "Check client_id, the secret or key, and the way the client authenticates."),
        ErrorCode("invalid_grant", (400,),
            "The code, refresh token or device code is unknown, used, expired, revoked or another client's.",
            "Have the person sign in again."),
        ErrorCode("unauthorized_client", (400,),
            "The settings of the client do not name this grant.",
            "Have staff allow the grant for the client."),
        ErrorCode("unsupported_grant_type", (400,),
            "The server does not have this grant.",
            "grant_types_supported in the metadata lists those it has."),
        ErrorCode("unsupported_response_type", (400,),
            "response_type is something else than code.",
            "Use the authorization code flow with PKCE."),
        ErrorCode("unsupported_token_type", (400,),
            "A token that was got in exchange cannot be revoked by itself.",
            "Revoke the token it was got for, or wait some minutes."),
        ErrorCode("invalid_scope", (400,),
            "The scope is missing or malformed, names nothing the client may have, or more than was granted.",
            "Ask for less, or have staff allow the scope for the client."),
        ErrorCode("invalid_target", (400,),
            "Tokens are not given out for that audience or resource.",
            "Leave the parameter out, or name an audience of the client."),
        ErrorCode("invalid_client_metadata", (400,),
            "What the client says about itself is no JSON object, or has a member that is not accepted here.",
            "Correct the member that the description names (RFC 7591)."),
        ErrorCode("invalid_redirect_uri", (400,),
            "redirect_uris is missing, or has an address that cannot be registered.",
            "Name https:// addresses, or http:// ones on this machine (RFC 7591)."),
        ErrorCode("invalid_dpop_proof", (400, 401),
            "The DPoP proof is for another request, is too old, or was used before (RFC 9449).",
            "Make a new proof for each request."),
        ErrorCode("invalid_token", (401,),
            "The access token is invalid, has expired or was revoked.",
            "Refresh it, or have the person sign in again."),
        ErrorCode("insufficient_scope", (403,),
            "The access token was not given for this.",
            "Ask for the scope that WWW-Authenticate names."),
        ErrorCode("authorization_pending", (400,),
            "The person has not answered yet (RFC 8628).",
            "Ask again after the interval."),
        ErrorCode("slow_down", (400,),
            "The device asks too often (RFC 8628).",
            "Wait five seconds longer between two requests from now on."),
        ErrorCode("expired_token", (400,),
            "Nobody has answered in time (RFC 8628).",
            "Begin anew with another device code."),
        ErrorCode("access_denied", (400,),
            "The person has not allowed it.",
            "Tell the person, and do not ask again at once."),
        ErrorCode("request_not_supported", (400,),
            "The client has no setting by which it signs request objects.",
            "Send the parameters themselves, or push them to /oauth/par; or have staff choose an algorithm for it."),
        ErrorCode("invalid_request_uri", (400,),
            "request_uri is no address that the client has registered, or nothing that can be used is there.",
            "Register the address exactly as it is sent, and serve the request object there over https."),
        ErrorCode("invalid_request_object", (400,),
            "The request object is not good, not for this server, or not signed by a key of the client (RFC 9101).",
            "Sign it as the description of the error says: it names the claim or the part that is wrong."),
        ErrorCode("request_uri_not_supported", (400,),
            "request_uri is not that of a pushed request (RFC 9126).",
            "Push the request to /oauth/par and use what it returns."),
        ErrorCode("registration_not_supported", (400,),
            "Clients are registered by staff.",
            "Leave the parameter registration out."),
        ErrorCode("login_required", (400,),
            "prompt=none was asked for, and the person has to sign in.",
            "Send the person to /oauth/authorize without prompt=none."),
        ErrorCode("consent_required", (400,),
            "prompt=none was asked for, and the person has to agree.",
            "Send the person to /oauth/authorize without prompt=none."),
        ErrorCode("temporarily_unavailable", (429, 503),
            "There were too many requests, or the server is busy.",
            "Try again after as many seconds as Retry-After says."),
    )
}  # fmt: skip


def problem_type(code: str) -> str:
    """Return the ``type`` of a problem: its place on the page, or ``about:blank`` for a code of somebody else's.

    A path of the host that answered (RFC 9457 §3.1.1 allows a relative reference with its full path). It is the same on
    every installation, and the page is that of the release that answered. Programs compare ``code``.
    """
    return f"{PAGE}#{code}" if code in CODES else "about:blank"


def operations(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return which operations can answer each code or OAuth error, as ``POST /path``.

    Args:
        document: The OpenAPI document. Its answer for every status that is not listed does not count.
    """
    found: dict[str, list[str]] = {}
    schemas = document["components"]["schemas"]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for code in sorted(set(_answered(operation, schemas))):
                found.setdefault(code, []).append(f"{method.upper()} {path}")
    return found


def _answered(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    for status, answer in operation["responses"].items():
        for media in answer.get("content", {}).values() if status != "default" else ():
            reference = media["schema"].get("$ref", "") if status >= "4" else ""
            fields = schemas.get(reference.rpartition("/")[2], {}).get("properties", {})
            yield from fields.get("code", {}).get("enum", ())
            yield from fields.get("error", {}).get("enum", ())
