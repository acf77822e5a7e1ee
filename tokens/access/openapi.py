"""How the OpenAPI document describes the access token; drf-spectacular finds the class once this module is imported."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema


class AccessTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular is half annotated
    """The two ways to present an access token, of which a request uses one."""

    target_class = "tokens.sessions.authentication.AccessTokenAuthentication"
    name = ["bearer", "cookie"]

    def get_security_requirement(self, auto_schema: AutoSchema) -> list[dict[str, list[str]]]:
        """Return both as alternatives."""
        del auto_schema
        return [{"bearer": []}, {"cookie": []}]

    def get_security_definition(self, auto_schema: AutoSchema) -> list[dict[str, Any]]:
        """Return the definitions in the order of ``name``."""
        del auto_schema
        return [
            {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "RFC 6750 §2.1"},
            {
                "type": "apiKey",
                "in": "cookie",
                "name": "__Host-access_token",
                "description": "`access_token` where cookies are not Secure, which only development allows",
            },
        ]
