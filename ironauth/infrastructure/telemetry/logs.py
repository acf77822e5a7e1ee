"""Logging: constant event names plus fields, one line each, as JSON or for a terminal.

Everything, Django's and Uvicorn's own loggers included, goes through one `LogPipe`. A line is pure ASCII, so no
input can start a line of its own or send a terminal an escape sequence.
"""

import json
import logging
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, NoReturn

import msgspec

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import current_request_id
from ironauth.infrastructure.core.lean_imports import without
from ironauth.infrastructure.telemetry.log_pipe import AccessLine, Event, LogPipe, flush_at_exit

with without("rich"):  # for coloured tracebacks, which nothing here writes
    import structlog

#: Fields whose value never belongs in a log, no matter who passes them by mistake. The rooms that have such values do
#: not register them: a log has to be safe before anything is registered.
_SECRET_FIELDS = frozenset(
    {
        "access_token", "authorization", "cookie", "email", "new_password", "password", "private_key",
        "refresh_token", "secret", "token",
    }
)  # fmt: skip
_COMPACT = (",", ":")
#: A longer path is written anew each time: our own are shorter, and 1,000 of 8 KiB would be remembered else.
MAX_REMEMBERED_CHARACTERS: Final = 128
_encoder = msgspec.json.Encoder(enc_hook=repr)


def _stamp(at_s: object) -> str:
    """Return RFC 3339 UTC with milliseconds."""
    return (
        datetime.fromtimestamp(at_s if isinstance(at_s, float) else clock.unix(), UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def json_line(event: Event) -> str:
    """Return the event as one line of ASCII JSON."""
    if isinstance(event, AccessLine):
        at_s, method, path, status, duration_ms, client, request_id = event
        whole_s = int(at_s)
        return (
            f'{{"timestamp":"{_second(whole_s)}.{int((at_s - whole_s) * 1000):03d}Z",{_request(method, path, status)}'
            # The alphabet of request ids needs no escaping (request_id.py).
            f'"duration_ms":{duration_ms:.3f},"client":{_address(client)},"request_id":"{request_id}"}}\n'
        )
    fields = {"timestamp": None, **event}
    fields["timestamp"] = _stamp(event.get("timestamp"))
    try:
        text = _encoder.encode(fields).decode()
    except (UnicodeEncodeError, TypeError, RecursionError, ValueError):
        # Lone surrogates and the like.
        text = json.dumps(fields, default=repr, skipkeys=True, separators=_COMPACT)
    if not text.isascii():
        text = json.dumps(json.loads(text), separators=_COMPACT)
    return _without_delete(text) + "\n"


@lru_cache(maxsize=2)
def _second(at_s: int) -> str:
    """Return RFC 3339 UTC without fraction and zone."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _request(method: str, path: str, status: int) -> str:
    """Return the part of a request's line that many requests share; of refused paths, which anybody invents, anew."""
    if status >= HTTPStatus.BAD_REQUEST or len(path) > MAX_REMEMBERED_CHARACTERS:
        return _written(method, path, status)
    return _remembered(method, path, status)


def _written(method: str, path: str, status: int) -> str:
    return f'"level":"info","event":"request","method":{_text(method)},"path":{_text(path)},"status":{status},'


_remembered = lru_cache(maxsize=1024)(_written)  # the routes of one busy minute


def _text(value: str) -> str:
    """Return ``value`` as a JSON string in ASCII."""
    return _without_delete(json.dumps(value))


_address = lru_cache(maxsize=1024)(_text)  # the clients of one busy minute


def _without_delete(text: str) -> str:
    """Escape DEL, the one ASCII control character that JSON leaves as it is."""
    return text.replace("\x7f", "\\u007f")


def console_line(event: Event) -> str:
    """Return the event for a terminal: time, level, event, fields; a traceback on indented lines below it."""
    if isinstance(event, AccessLine):
        event = {**event.event(), "duration_ms": round(event.duration_ms, 3)}
    rest = {k: v for k, v in event.items() if k not in ("timestamp", "level", "event", "exception")}
    fields = "".join(f" {name}={_quoted(value)}" for name, value in rest.items() if value is not None)
    head = f"{_stamp(event.get('timestamp'))} {event.get('level', 'info')!s:<8}{_quoted(event.get('event'))}{fields}\n"
    lines = str(event.get("exception") or "").splitlines()
    return head + "".join(f"    | {_escaped(line)}\n" for line in lines)


def _escaped(text: str) -> str:
    return _without_delete(json.dumps(text)[1:-1].replace('\\"', '"'))


def _quoted(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=repr, skipkeys=True)
    text = _escaped(text)
    return f'"{text}"' if " " in text and not isinstance(value, (dict, list)) else text


_FORMATS = {"json": json_line, "console": console_line}
pipe = LogPipe(json_line)


def _access(method: str, path: str, status: int, duration_ms: float, client: str, request_id: str) -> None:
    line = (clock.unix(), method, path[:MAX_PATH], status, duration_ms, client, request_id)
    pipe.put(_make(AccessLine, line))


def _traced_access(method: str, path: str, status: int, duration_ms: float, client: str, request_id: str) -> None:
    line = AccessLine(clock.unix(), method, path[:MAX_PATH], status, round(duration_ms, 3), client, request_id)
    pipe.put({**line.event(), **_trace()})


#: Queue the line of one answered request; the caller passes a path without its query string.
access: Callable[[str, str, int, float, str, str], None] = _access
#: Tells the current trace's id, "" outside of one; None while there are no traces.
_trace_id: Callable[[], str] | None = None


def name_traces(trace_id: Callable[[], str] | None) -> None:
    """Let every line of a trace name it, as ``trace_id`` tells it; None: no more.

    Another ``access`` then, so that nobody without traces pays for them at every request.
    """
    global access, _trace_id  # noqa: PLW0603 - one log per process is the point
    _trace_id = trace_id
    access = _access if trace_id is None else _traced_access


def _trace() -> dict[str, str]:
    """Return the field that names the current trace, nothing outside of one."""
    found = "" if _trace_id is None else _trace_id()
    return {"trace_id": found} if found else {}


_make = tuple.__new__  # what AccessLine's own constructor calls, without the call around it
#: Characters of a path that reach the log; the guard lets 8 KiB through.
MAX_PATH = 512


def _finish(_logger: object, method: str, event: MutableMapping[str, Any]) -> NoReturn:
    """Complete the event, queue it, and end structlog's chain."""
    for name in event.keys() & _SECRET_FIELDS:
        event[name] = "[redacted]"
    if error := event.pop("exc_info", None):
        event["exception"] = _traceback(error)
    if request_id := current_request_id():
        event.setdefault("request_id", request_id)
    event.update(_trace())
    _queue({"timestamp": clock.unix(), "level": method, **event})
    raise structlog.DropEvent


def _queue(event: Mapping[str, object]) -> None:
    (pipe.put_always if event["level"] in ("error", "critical") else pipe.put)(event)


def _traceback(error: object) -> str | None:
    """Return the traceback of an exception, an ``exc_info`` triple, or (True) the exception being handled."""
    if isinstance(error, BaseException):
        return "".join(traceback.format_exception(error))
    if isinstance(error, tuple):
        return "".join(traceback.format_exception(*error)) if error[0] is not None else None
    return traceback.format_exc()


_OURS: Final = "ironauth."
_OF_EVERY_RECORD: Final = frozenset(vars(logging.makeLogRecord({})))


class PipeHandler(logging.Handler):
    """Brings standard library records into the pipe: Django's, Uvicorn's and every package's."""

    def emit(self, record: logging.LogRecord) -> None:
        """Queue ``record``; its arguments are merged now, because they may change."""
        try:
            event: dict[str, object] = {
                "timestamp": record.created,
                "level": record.levelname.lower(),
                "event": record.getMessage(),
                "logger": record.name,
            }
            if record.name.startswith(_OURS):  # what others add may be a whole request
                event |= {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
            if record.exc_info:
                event["exception"] = _traceback(record.exc_info)
            if request_id := current_request_id():
                event["request_id"] = request_id
            event |= _trace()
            _queue(event)
        except Exception:  # noqa: BLE001 - logging never raises into the code that logs
            self.handleError(record)


def configure(config: Mapping[str, str]) -> None:
    """Set up logging for the process; Django calls it with ``settings.LOGGING``: ``level`` and ``format``.

    Raises:
        KeyError: There is no such format.
        ValueError: There is no such level.
    """
    level = config.get("level", "INFO")
    pipe.encode = _FORMATS[config.get("format", "json")]
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[_finish],
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, PipeHandler)]:
        root.removeHandler(handler)
    root.addHandler(PipeHandler())
    # Packages' own chatter (httpx prints whole URLs) starts at WARNING; Django and Uvicorn follow the setting.
    root.setLevel(level if level == "DEBUG" else max(logging.WARNING, logging.getLevelNamesMapping()[level]))
    logging.getLogger("ironauth").setLevel(level)  # where the server speaks before structlog is there, and after it
    for name in ("django", "django.server", "uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(level if name in ("django", "uvicorn") else logging.NOTSET)
        # Uvicorn looks for a handler to decide whether to build access lines; IronAuth writes its own.
        logger.propagate = name != "uvicorn.access"
    if not _started:
        _started.append(True)
        flush_at_exit(pipe)
    pipe.start()


_started: list[bool] = []


def flush() -> None:
    """Write everything logged so far; the end of the process and tests call it."""
    pipe.flush()


def get_logger() -> structlog.typing.FilteringBoundLogger:
    """Return the logger: ``get_logger().info("constant_event", key=value)``; ``exc_info=`` adds a traceback."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    return logger
