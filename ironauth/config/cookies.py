"""Every cookie this product sets: its name and its flags. A test fails for one that is not in this list.

All of them are HttpOnly, have ``Path=/`` and no ``Domain``, and are Secure unless a development server says otherwise.
A closed list without an import of Django's: the settings read it, and the reader of cookies refuses what imitates one.
"""

from typing import Final, Literal, NamedTuple

type SameSite = Literal["Lax", "Strict"]

#: A browser lets no other host set or send a name with this prefix (RFC 6265bis §4.1.3.2).
PREFIX: Final = "__Host-"


class Cookie(NamedTuple):
    """A cookie of this product.

    Attributes:
        base: Its name without the prefix.
        samesite: Which requests of other sites bring it.
        signs_in: It lets its bearer in by itself, so the end of a session or an account takes it away.
    """

    base: str
    samesite: SameSite
    signs_in: bool = False


ACCESS: Final = Cookie("access_token", "Lax", signs_in=True)
REFRESH: Final = Cookie("refresh_token", "Strict", signs_in=True)
DEVICE: Final = Cookie("device", "Strict")
#: On which a sign-in need not prove the second factor; it outlives a sign-out, and signs nobody in.
KEPT_DEVICE: Final = Cookie("kept_device", "Strict")
SSO: Final = Cookie("sso", "Lax")
SSO_OTHERS: Final = Cookie("sso_others", "Lax")
AUTHORIZE: Final = Cookie("authorize", "Lax")
LANGUAGE: Final = Cookie("language", "Lax")
OWN_LANGUAGE: Final = Cookie("own_language", "Lax")
#: Which member of staff acts as which person, sealed, for the banner of pages; it signs nobody in.
ACTING: Final = Cookie("acting", "Lax")
ADMIN_SESSION: Final = Cookie("admin_session", "Lax")
ADMIN_CSRF: Final = Cookie("csrftoken", "Lax")
REGISTRY: Final = (
    ACCESS, REFRESH, DEVICE, KEPT_DEVICE, SSO, SSO_OTHERS, AUTHORIZE, LANGUAGE, OWN_LANGUAGE, ACTING, ADMIN_SESSION,
    ADMIN_CSRF,
)  # fmt: skip


def name_of(cookie: Cookie, *, secure: bool) -> str:
    """Return what a browser calls the cookie: with the prefix whenever cookies are Secure.

    Args:
        cookie: One of the cookies of this service.
        secure: IRONAUTH_COOKIE_SECURE.
    """
    return f"{PREFIX}{cookie.base}" if secure else cookie.base


def names(*, secure: bool) -> frozenset[str]:
    """Return the names of all cookies of the registry."""
    return frozenset(name_of(cookie, secure=secure) for cookie in REGISTRY)
