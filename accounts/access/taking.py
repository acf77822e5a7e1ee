"""Views that take one way in away from somebody else: what a caller has to prove for it."""

from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import StaffView, WayInPermission, require_factor
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest


class TakesWayIn(StaffView):
    """A view that takes one way in: a person needs a second factor in their session for it, as in the admin."""

    permission_classes = (IsAuthenticated, WayInPermission)
    rights_in_unit = frozenset({"GET", "DELETE"})

    async def require_proof(self, request: ApiRequest) -> None:
        """Raise what is missing, in the order in which a caller can mend it: the right, the factor, a fresh proof."""
        await self.require_rights(request)
        require_factor(request)
        step_up.require_recent(signed_in(request))
