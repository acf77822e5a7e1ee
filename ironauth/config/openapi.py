"""drf-spectacular's settings, and the few operations that are not DRF views.

Read by ``ironauth.settings``, so nothing of Django is imported here.
"""

from pathlib import Path
from typing import Final

#: An example of each body, by the name of its component.
EXAMPLES_FILE: Final = Path(__file__).parents[1] / "openapi_examples.json"

_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_HTML = {"text/html": {"schema": {"type": "string"}}}
#: A page for people; a problem where the request itself cannot be read.
_PAGE_OR_PROBLEM = {**_HTML, "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_JSON = {"application/json": {"schema": {"type": "object"}}}

DESCRIPTION = """\
People sign up and sign in, clients get ten-minute Ed25519 access tokens (RFC 9068) and rotating refresh tokens.

**Credentials.** `Authorization: Bearer …` or the access cookie; both at once are `400`. Unsafe methods that bring the
cookie need a same-origin `Origin` or `Sec-Fetch-Site`, or a trusted origin, else `403`.

**Errors** are RFC 9457 `application/problem+json` with a stable `code`; bad input is `400` and names every bad field.
`429` and `503` carry `Retry-After`. Unknown JSON fields are ignored and never assigned. Bodies over 64 KiB are `413`.

**Editing.** Single resources that can be changed answer GET with an `ETag`. A change with that ETag as `If-Match` is
`412` where somebody else was faster. `If-None-Match` on GET answers `304` while nothing has changed.

**Creating.** With an `Idempotency-Key` a request that creates something can be sent again: for a day it gets the answer
of the first one, with `Idempotency-Replayed: true`.

**Lists** answer `results` and the addresses `next` and `previous`, null at the ends. Follow them as they are: they have
the `cursor`. `page_size` says how many rows a page has. Short lists are plain arrays.

Every response carries `X-Request-ID`; a valid one of the request is kept.
"""


def _query(name: str, description: str, *, required: bool = False) -> dict[str, object]:
    schema = {"type": "string"}
    return {"in": "query", "name": name, "description": description, "required": required, "schema": schema}


#: Of the API, as its paths have it (/api/v1), and not of the release: anybody may read the document.
API_VERSION = "1"

_HEADER_TEXT: Final = {"type": "string"}
_SECONDS: Final = {"type": "integer", "minimum": 1}
#: ``components.headers`` of the document.
HEADERS: Final[dict[str, dict[str, object]]] = {
    "X-Request-ID": {
        "description": "The request's own, where it is valid, or a new one; it stands in the log and in problems.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
    },
    "Retry-After": {"description": "Seconds to wait before the next try.", "schema": _SECONDS},
    "WWW-Authenticate": {
        "description": "What credential is wanted, and what is wrong with the one sent (RFC 6750 §3).",
        "schema": _HEADER_TEXT,
    },
    "RateLimit-Policy": {
        "description": "The rules that count this request: `q` in any `w` seconds (IETF draft, ratelimit-headers-11).",
        "schema": _HEADER_TEXT,
        "example": '"sign_up";q=30;w=3600',
    },
    "RateLimit": {
        "description": "What is left of the caller's own count: `r` for the next `t` seconds; a refusal has `r=0`.",
        "schema": _HEADER_TEXT,
        "example": '"sign_up";r=29;t=3600',
    },
    "ETag": {
        "description": "The state that GET shows, for If-Match and If-None-Match; strong (RFC 9110 §8.8.3).",
        "schema": _HEADER_TEXT,
        "example": '"Zk3x9QkPl0NTpcxQkiM0nA"',
    },
    "Location": {"description": "The path of what was made.", "schema": {"type": "string", "format": "uri-reference"}},
    "Idempotency-Replayed": {
        "description": "`true` where the answer is that of an earlier request with the same Idempotency-Key.",
        "schema": {"type": "string", "enum": ["true"]},
    },
    "Deprecation": {"description": "Since when it is deprecated (RFC 9745).", "required": True, "schema": _HEADER_TEXT},
    "Sunset": {"description": "After when it may be gone (RFC 8594).", "required": True, "schema": _HEADER_TEXT},
}

#: The chapter of an operation, by the beginning of its path: the first that fits. Generated clients have a module each.
TAGS_BY_PATH = {
    **dict.fromkeys(("/api/v1/access/signin", "/api/v1/access/step-up"), "sign-in"),
    **dict.fromkeys(("/api/v1/access/password", "/api/v1/access/email"), "password-and-email"),
    **dict.fromkeys(("/api/v1/access/mfa", "/api/v1/access/kept-devices"), "second-factors"),
    **dict.fromkeys(("/api/v1/access/identities", "/api/v1/access/consents"), "connections"),
    **dict.fromkeys(("/api/v1/access/signup", "/api/v1/access/me"), "account"),
    "/api/v1/access/": "sessions",
    "/api/v1/users/invitations": "invitations",
    **dict.fromkeys(("/api/v1/roles", "/api/v1/users/{user_id}/roles"), "roles"),
    "/api/v1/audit": "audit",
    **dict.fromkeys(
        (f"/api/v1/users/{{user_id}}/{part}" for part in ("password", "mfa", "identities", "kept-devices")), "ways-in"
    ),
    "/api/v1/users/{user_id}/provider-tokens": "providers",
    "/api/v1/users/{user_id}/organizations": "organizations-for-staff",
    "/api/v1/users/{user_id}/": "support",
    "/api/v1/users": "people",
    **dict.fromkeys(("/oauth/register", "/api/v1/clients/registration-tokens"), "registration"),
    "/api/v1/clients": "clients",
    "/api/v1/resources": "resources",
    "/api/v1/authorization-details-types": "resources",
    "/api/v1/keys": "keys",
    "/api/v1/providers": "providers",
    **dict.fromkeys(
        (f"/api/v1/organizations/{part}" for part in ("{organization_id}/members", "{organization_id}/invitations")),
        "organization-members",
    ),
    "/api/v1/organizations": "organizations",
    "/api/v1/staff/organizations": "organizations-for-staff",
    "/api/v1/": "staff",
    "/.well-known/oauth-protected-resource": "system",
    **dict.fromkeys(("/oauth/", "/.well-known/o"), "oauth"),
    "/": "system",
}

#: Chapters of operations that ask for a right of staff.
STAFF_CHAPTERS = frozenset(
    {
        "people",
        "support",
        "ways-in",
        "roles",
        "invitations",
        "audit",
        "clients",
        "resources",
        "keys",
        "providers",
        "organizations-for-staff",
        "staff",
    }
)

SPECTACULAR_SETTINGS: dict[str, object] = {
    "TITLE": "IronAuth",
    "VERSION": API_VERSION,
    "DESCRIPTION": DESCRIPTION,
    "OAS_VERSION": "3.1.0",
    "LICENSE": {},
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "SERVE_INCLUDE_SCHEMA": False,
    "SORT_OPERATIONS": False,  # the URLconf's order, which follows a person's way: sign up, sign in, …
    # Enumerations stay where they are used: the hook that names them expects drf-spectacular's own form.
    "POSTPROCESSING_HOOKS": [],
    "TAGS": [
        {"name": "account", "description": "Signing up, and one's own account"},
        {"name": "sign-in", "description": "Opening a session: by password, second factor, passkey or mailed code"},
        {"name": "sessions", "description": "Refreshing, checking and ending one's own sessions"},
        {"name": "password-and-email", "description": "Another password or address, and proofs by message"},
        {
            "name": "second-factors",
            "description": "One-time codes, passkeys, recovery codes and devices kept signed in",
        },
        {"name": "connections", "description": "Identities at other providers, and applications that were let in"},
        {"name": "organizations", "description": "One's own organizations (IRONAUTH_ORGANIZATIONS)"},
        {"name": "organization-members", "description": "Members of one's organizations, and who is invited to them"},
        {
            "name": "people",
            "description": "Other people's accounts; needs the rights (Django model permissions) for it",
        },
        {"name": "support", "description": "What staff do for a person and their sessions; needs the rights for it"},
        {"name": "ways-in", "description": "What a person signs in with, for staff; needs the rights for it"},
        {"name": "roles", "description": "Roles, and who has them; needs the rights for it"},
        {"name": "invitations", "description": "People asked to make an account; needs the rights for it"},
        {"name": "organizations-for-staff", "description": "All organizations; needs the rights for it"},
        {"name": "audit", "description": "The audit trail; needs the right to read it"},
        {
            "name": "clients",
            "description": "The applications that sign their users in here: for staff, and machines that administer",
        },
        {"name": "resources", "description": "APIs that access tokens are made for, and types of what is asked there"},
        {"name": "keys", "description": "Signing keys: for staff, and machines that administer"},
        {"name": "providers", "description": "Sign-in providers: for superusers, and machines that administer"},
        {
            "name": "oauth",
            "description": "OAuth 2.0 and OpenID Connect: what the applications call that sign their users in here",
        },
        {"name": "registration", "description": "Applications that register themselves (RFC 7591, RFC 7592)"},
        {"name": "system", "description": "Keys, health, and this document"},
    ],
    "APPEND_COMPONENTS": {"headers": HEADERS},
    "APPEND_PATHS": {
        "/oauth/authorize": {
            "get": {
                "operationId": "oauth_authorize",
                "summary": "Send a person here to sign in to an application",
                "description": "The authorization endpoint (RFC 6749 §3.1, OpenID Connect Core §3.1.2). A browser "
                "opens it; the answer comes to `redirect_uri` with `code` and `state`, or with `error`.",
                "tags": ["oauth"],
                "security": [{}],
                "parameters": [
                    _query("client_id", "The application.", required=True),
                    _query("redirect_uri", "Where the answer goes: one that is registered for the application."),
                    _query("response_type", "`code`."),
                    _query("scope", "What the application asks for, separated by spaces."),
                    _query("state", "Comes back with the answer."),
                    _query("code_challenge", "Of PKCE (RFC 7636)."),
                    _query("code_challenge_method", "`S256`."),
                    _query("nonce", "Comes back in the ID token."),
                    _query("prompt", "`none`, `login`, `consent`, `select_account` or `create`."),
                    _query("max_age", "Seconds since the person has proved who they are."),
                    _query("login_hint", "The address that the page begins with."),
                    _query("resource", "The API that the access token is for (RFC 8707); once for each."),
                    _query("authorization_details", "A JSON array of objects of registered types (RFC 9396)."),
                    _query("request_uri", "What /oauth/par has returned, in place of all but client_id."),
                ],
                "responses": {
                    "200": {"description": "A page that asks the person", "content": _HTML},
                    "303": {"description": "Back to the application, or on to the next page"},
                    "400": {
                        "description": "A page for the person: the request names no application",
                        "content": _PAGE_OR_PROBLEM,
                    },
                    "429": {
                        "description": "A page: too many unknown applications were named",
                        "content": _PAGE_OR_PROBLEM,
                    },
                    "503": {"description": "A page: the server is busy", "content": _PAGE_OR_PROBLEM},
                },
            }
        },
        "/oauth/logout": {
            "get": {
                "operationId": "oauth_logout",
                "summary": "Send a person here to sign out",
                "description": "RP-initiated logout (OpenID Connect RP-Initiated Logout 1.0). A browser opens it.",
                "tags": ["oauth"],
                "security": [{}],
                "parameters": [
                    _query("id_token_hint", "An ID token of the session: nobody is asked then."),
                    _query("client_id", "The application."),
                    _query("post_logout_redirect_uri", "Where the browser goes then: one that is registered."),
                    _query("state", "Comes back with the redirect."),
                ],
                "responses": {
                    "200": {"description": "A page that asks, or says that it is done", "content": _HTML},
                    "303": {"description": "Back to the application"},
                    "400": {
                        "description": "A page for the person: the address is not registered",
                        "content": _PAGE_OR_PROBLEM,
                    },
                    "503": {"description": "A page: the server is busy", "content": _PAGE_OR_PROBLEM},
                },
            }
        },
        "/ping": {
            "get": {
                "operationId": "get_ping",
                "summary": "Answer OK without touching anything",
                "tags": ["system"],
                "security": [{}],
                "responses": {"200": {"description": "`OK`", "content": _TEXT}},
            }
        },
        "/api/openapi.json": {
            "get": {
                "operationId": "get_openapi",
                "summary": "This document",
                "tags": ["system"],
                "security": [{}],
                "responses": {"200": {"description": "OpenAPI 3.1", "content": _JSON}},
            }
        },
        "/api/docs": {
            "get": {
                "operationId": "get_docs",
                "summary": "This document as a page",
                "tags": ["system"],
                "security": [{}],
                "responses": {"200": {"description": "A page with nothing from another host", "content": _HTML}},
            }
        },
    },
}
