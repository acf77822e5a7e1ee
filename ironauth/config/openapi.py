"""drf-spectacular's settings, and the few operations that are not DRF views.

Read by ``ironauth.settings``, so nothing of Django is imported here.
"""

_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_HTML = {"text/html": {"schema": {"type": "string"}}}
_JSON = {"application/json": {"schema": {"type": "object"}}}

DESCRIPTION = """\
People sign up and sign in, clients get ten-minute Ed25519 access tokens (RFC 9068) and rotating refresh tokens.

**Credentials.** `Authorization: Bearer …` or the access cookie; both at once are `400`. Unsafe methods that bring the
cookie need a same-origin `Origin` or `Sec-Fetch-Site`, or a trusted origin, else `403`.

**Errors** are RFC 9457 `application/problem+json` with a stable `code`; bad input is `400` and names every bad field.
`429` and `503` carry `Retry-After`. Unknown JSON fields are ignored and never assigned. Bodies over 64 KiB are `413`.

Every response carries `X-Request-ID`; a valid one of the request is kept.
"""

#: Of the API, as its paths have it (/api/v1), and not of the release: anybody may read the document.
API_VERSION = "1"

#: The chapter of an operation that names none, by the beginning of its path: the first that fits.
TAGS_BY_PATH = {"/api/v1/access/": "access", "/api/v1/": "staff", "/": "system"}

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
        {"name": "access", "description": "What a person does with their own account: sign up, sign in, sessions"},
        {
            "name": "staff",
            "description": "People, sessions and roles; needs the rights (Django model permissions) for it",
        },
        {
            "name": "oauth",
            "description": "OAuth 2.0 and OpenID Connect: what the applications call that sign their users in here",
        },
        {"name": "system", "description": "Keys, health, and this document"},
    ],
    "APPEND_PATHS": {
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
