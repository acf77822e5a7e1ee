"""Bodies of staff that name roles or permissions: what is unknown is told beside what is wrong otherwise."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from rest_framework import exceptions as drf
from rest_framework.serializers import BaseSerializer

from accounts.access.permissions import StaffView
from ironauth.infrastructure.api.problem import flatten
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import ValidationFailed


async def validated_naming_unknown(
    view: StaffView,
    request: ApiRequest,
    serializer: type[BaseSerializer[Any]],
    field: str,
    require: Callable[[Iterable[str]], Awaitable[None]],
) -> dict[str, Any]:
    """Return the body as validated; when it is not valid, name the unknown items of ``field`` as well.

    In a valid body the unit of work finds them, in its own transaction.

    Args:
        view: Who asks.
        request: The request.
        serializer: Of its body.
        field: The field that names something.
        require: Raises ``ValidationFailed`` naming what of it does not exist.

    Raises:
        ValidationFailed: The body is not valid, and names what does not exist.
    """
    try:
        return await view.validated(request, serializer)
    except drf.ValidationError as refused:
        given: Any = request.data.get(field) if isinstance(refused.detail, dict) else None
        bad: Any = refused.detail.get(field, {}) if isinstance(refused.detail, dict) else {}
        await view.require_rights(request)  # before anything is looked up: what exists is nobody else's business
        judged = isinstance(given, list) and isinstance(bad, dict)  # else it was refused as a whole
        names = [name for at, name in enumerate(given) if at not in bad] if judged else []
        try:
            await require(names)
        except ValidationFailed as unknown:
            raise ValidationFailed(errors=(*flatten(refused.detail), *unknown.errors)) from refused
        raise
