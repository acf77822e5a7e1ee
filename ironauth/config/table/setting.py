"""One setting: its name, type, default, bounds, words, and what makes the start fail; and how all of them are read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ironauth.config.environment import Environment, Limit

type Kind = Literal["switch", "whole", "number", "choice", "text", "words"]
_KINDS: Final[dict[type, Kind]] = {bool: "switch", int: "whole", float: "number", str: "text", tuple: "words"}
type Accept = Callable[[Any, "SettingValues"], Any]


@dataclass(frozen=True)
class Setting:
    """A variable of the environment.

    Attributes:
        name: Of the variable, and of Django's setting unless ``exported`` is false.
        text: What it is for, as ``deploy/env.example`` and the reference have it; ``{least}`` and ``{most}`` stand
            for the bounds, and a line that begins with two spaces is a command.
        kind: How it is read: a method of ``Environment``. Needed where the default is a function; else the default's
            type or the choices say it.
        default: The value, or a function of the other settings.
        example: What ``deploy/env.example`` shows where the default is a function or empty.
        limit: Bounds of a number, its unit, and the reason for both.
        choices: Of a ``choice``.
        accept: Gets the value and the other settings; returns what is used, or raises ``ImproperlyConfigured``.
        read: Reads it in place of ``kind``, where several variables are judged together.
        type: Python's type of what is used, where it is not that of ``kind``.
        required: Whether ``deploy/env.example`` has it as a line to fill in.
        exported: Whether Django's settings have the value under this name.
        read_by: What else reads it: the setting it belongs to.
        refused: What makes the start fail, in addition to bounds and choices.
        secret: Whether it has a secret in it, and so belongs into a Secret where settings are kept apart from those.
    """

    name: str
    text: str
    kind: Kind | Literal[""] = ""
    default: Any = ""
    example: str = ""
    limit: Limit | None = None
    choices: tuple[str, ...] = ()
    accept: Accept | None = None
    read: Callable[[Environment, "SettingValues"], Any] | None = None
    type: str = ""
    required: bool = False
    exported: bool = True
    read_by: str = ""
    refused: str = ""
    secret: bool = False

    def __post_init__(self) -> None:
        if not self.kind:
            object.__setattr__(self, "kind", "choice" if self.choices else _KINDS[type(self.default)])

    def value(self, env: Environment, given: "SettingValues") -> Any:
        """Return what the environment says, or the default. Raises ``ImproperlyConfigured``."""
        if self.read is not None:
            return self.read(env, given)
        default = self.default(given) if callable(self.default) else self.default
        more = {"choices": self.choices} if self.kind == "choice" else {}
        found = getattr(env, self.kind)(self.name, default=default, **more)
        return found if self.accept is None else self.accept(found, given)


@dataclass(frozen=True)
class Section:
    """Settings about one subject, in the order of the reference."""

    title: str
    settings: tuple[Setting, ...]

    def __init__(self, title: str, *settings: Setting) -> None:
        object.__setattr__(self, "title", title)
        object.__setattr__(self, "settings", settings)


class SettingValues:
    """The values of settings; each is read when it is asked for, so that a default may depend on any other."""

    def __init__(self, env: Environment, settings: Iterable[Setting], known: Mapping[str, Any]) -> None:
        """Read nothing yet.

        Args:
            env: What the values are read from.
            settings: Every setting that may be asked for.
            known: Values that are no settings, and settings that are not to be read.
        """
        self._env = env
        self._settings = {setting.name: setting for setting in settings}
        self._values = dict(known)

    def __getitem__(self, name: str) -> Any:
        """Return a value. Raises ``ImproperlyConfigured`` for one that is refused."""
        if name not in self._values:
            self._values[name] = self._settings[name].value(self._env, self)
        return self._values[name]

    def exported(self) -> dict[str, Any]:
        """Read every setting, in order, and return those that Django's settings have under their names."""
        own = [setting for setting in self._settings.values() if not setting.read_by]
        values = {setting.name: self[setting.name] for setting in own}
        return {setting.name: values[setting.name] for setting in own if setting.exported}
