"""Where an invitation leads once its account is there: an application that a higher room knows.

The address is the application's own, as it is registered at that moment; no link, form or invitation has one.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Self
from urllib.parse import urlencode

from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.core.errors import FieldError, ValidationFailed

UNKNOWN: Final = _("There is no such application that says where a sign-in begins.")


class Application(NamedTuple):
    """An application that invitations can continue to; ``start``: its address where a sign-in begins."""

    client_id: str
    name: str
    start: str

    def with_hint(self, email: str) -> Self:
        """Return it with the address of who signs in, so that nobody types it again (OpenID Connect Core 1.0 §4).

        Args:
            email: The address that was invited.
        """
        joint = "&" if "?" in self.start else "?"
        return self._replace(start=f"{self.start}{joint}{urlencode({'login_hint': email})}")


type Finder = Callable[[str], Application | None]
type Lister = Callable[[], list[tuple[str, str]]]


class _Known:
    """What the room of the applications has registered."""

    find: Finder = staticmethod(lambda client_id: None)
    offered: Lister = staticmethod(list)


def register(*, find: Finder, offered: Lister) -> None:
    """Say how applications are found.

    Args:
        find: Returns the enabled application of an id where it says where a sign-in begins. A unit of work.
        offered: Returns the ids and names of all of them. A unit of work.
    """
    _Known.find, _Known.offered = staticmethod(find), staticmethod(offered)


def find(client_id: str) -> Application | None:
    """Return the application of an invitation, while it can be continued to; None for "" and any other."""
    return _Known.find(client_id) if client_id else None


def offered() -> list[tuple[str, str]]:
    """Return the ids and names of the applications that an invitation can name."""
    return _Known.offered()


def require(client_id: str) -> str:
    """Return the id to store with an invitation: the application's own text; "" for none.

    Raises:
        ValidationFailed: (``client``) An invitation cannot name such an application.
    """
    if not client_id:
        return ""
    found = find(client_id)
    if found is None:
        raise ValidationFailed(errors=[FieldError("client", "unknown", UNKNOWN)])
    return found.client_id
