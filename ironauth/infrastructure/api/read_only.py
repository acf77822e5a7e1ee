"""Plain async views that only answer GET and HEAD, for answers that cost less than DRF's request would."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate

from django.http import HttpRequest, HttpResponse

from ironauth.infrastructure.api.problem import problem_response

ALLOWED = "GET, HEAD, OPTIONS"


def read_only[**Named](
    view: Callable[Concatenate[HttpRequest, Named], Coroutine[Any, Any, HttpResponse]],
) -> Callable[Concatenate[HttpRequest, Named], Coroutine[Any, Any, HttpResponse]]:
    """Answer GET and HEAD with ``view``, OPTIONS with 204, and the rest with 405; each of these names what is allowed.

    Django's ``require_safe`` would answer 405 without the problem document that the contract asks for.
    """

    @wraps(view)
    async def answer(request: HttpRequest, /, *args: Named.args, **named: Named.kwargs) -> HttpResponse:
        if request.method in ("GET", "HEAD"):
            return await view(request, *args, **named)
        if request.method == "OPTIONS":
            empty = HttpResponse(status=204, headers={"Allow": ALLOWED})
            del empty.headers["Content-Type"]
            return empty
        return problem_response(
            status=405,
            code="method_not_allowed",
            title="Method Not Allowed",
            detail="This address can only be read: use GET.",
            headers={"Allow": ALLOWED},
        )

    return answer
