"""The shapes of ASGI 3 (https://asgi.readthedocs.io/en/latest/specs/main.html)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
#: Our own extension: a server that names it in a scope takes a whole answer as one message of this type, with
#: ``status``, ``lines`` (the head's fields as HTTP/1.1 has them) and ``body``.
WHOLE_ANSWER = "ironauth.whole_answer"
