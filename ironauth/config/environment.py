"""Typed reading of environment variables: what is not exactly right stops start-up instead of being guessed at.

Every refusal is one line that names the variable and ends with the remedy. No message repeats the value: it may be a
secret in the wrong place, and start-up errors end up in logs. Imported while the settings are being read, so nothing
here may touch ``django.conf.settings``.
"""

import io
import os
import re
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
# ASCII digits only, and few enough for any bound: `int` and `float` also take 1_000, other scripts' digits, nan, 1e400.
WHOLE = re.compile(r"-?[0-9]{1,15}")
NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
PREFIX = "IRONAUTH_"  # of every variable that is not an established name
ALIKE = 0.8  # difflib's ratio: a letter or two swapped, or a unit left out, in a name of ten or more
LINE = re.compile(r"(?:export )?[A-Za-z_][A-Za-z_0-9]*=[^\0]*")
OTHERS = 0o077  # every permission of the file's group and of everybody else


@dataclass(frozen=True)
class Limit:
    """What a number may be: ``least`` and ``most`` (both allowed) in ``unit``, and why not less or more."""

    least: float
    most: float
    unit: str
    why: str


class Environment:
    """Reads ``variables``; numbers within ``limits``, which has an entry for every number that is asked for."""

    def __init__(self, variables: Mapping[str, str], limits: Mapping[str, Limit]) -> None:
        self._variables = variables
        self._limits = limits
        self._asked: set[str] = set()

    def refuse_misspelt(self, *, of_ours: Iterable[str] = ()) -> None:
        """Raise ``ImproperlyConfigured`` for a variable that is nearly, but not, one that has been read by now.

        Judged are names that begin with `PREFIX`, by the rest, and those ``of_ours``, from our own file. Names that
        resemble none are left alone: orchestrators add ``<SERVICE>_PORT`` and the like.
        """
        known = {name.removeprefix(PREFIX): name for name in self._asked}
        names = {name for name in self._variables if name.startswith(PREFIX)}.union(of_ours)
        for name in sorted(names - self._asked):
            if meant := get_close_matches(name.removeprefix(PREFIX), known, 1, ALIKE):
                raise ImproperlyConfigured(f"{name} is no setting: rename it to {known[meant[0]]}, or remove it")

    def _given(self, name: str) -> str | None:
        """Return the value of ``name``, and remember that it is a setting."""
        self._asked.add(name)
        return self._variables.get(name)

    def text(self, name: str, *, default: str) -> str:
        """Return the value without surrounding spaces; empty is refused unless ``default`` is empty as well."""
        value = self._given(name)
        if value is None:
            return default
        if not value.strip() and default:
            raise ImproperlyConfigured(f"{name} is empty: give it a value, or remove it for the default")
        return value.strip()

    def words(self, name: str, *, default: Sequence[str] = ()) -> list[str]:
        """Return the items between commas, without surrounding spaces and without empty ones."""
        value = self._given(name)
        return list(default) if value is None else [item.strip() for item in value.split(",") if item.strip()]

    def matching(self, pattern: re.Pattern[str]) -> dict[str, str]:
        """Return every variable whose whole name matches, without surrounding spaces; for families of others' names."""
        return {name: text.strip() for name, text in self._variables.items() if pattern.fullmatch(name)}

    def switch(self, name: str, *, default: bool) -> bool:
        """Return a boolean; any word but 1/0, true/false, yes/no, on/off (in any case) is refused."""
        value = self._given(name)
        if value is None:
            return default
        found = SWITCH.get(value.strip().lower())
        if found is None:
            raise ImproperlyConfigured(
                f"{name} must be 1 or 0 (or true/false, yes/no, on/off): "
                f"correct it, or remove it for the default, {int(default)}"
            )
        return found

    def choice(self, name: str, *, choices: Sequence[str], default: str) -> str:
        """Return the one of ``choices`` that the value is, in any case, as it is spelt there."""
        value = self.text(name, default=default).lower()
        for one in choices:
            if one.lower() == value:
                return one
        raise ImproperlyConfigured(
            f"{name} must be one of {', '.join(choices)}: correct it, or remove it for the default, {default}"
        )

    def whole(self, name: str, *, default: int) -> int:
        """Return a whole number within the variable's limit."""
        value = self._given(name)
        if value is None:
            return default
        if WHOLE.fullmatch(value.strip()) is None or not self._allows(name, int(value)):
            raise self._out_of_limit(name, "a whole number", default)
        return int(value)

    def number(self, name: str, *, default: float) -> float:
        """Return a number, with or without decimals, within the variable's limit."""
        value = self._given(name)
        if value is None:
            return default
        if NUMBER.fullmatch(value.strip()) is None or not self._allows(name, float(value)):
            raise self._out_of_limit(name, "a number", default)
        return float(value)

    def _allows(self, name: str, value: float) -> bool:
        return self._limits[name].least <= value <= self._limits[name].most

    def _out_of_limit(self, name: str, kind: str, default: float) -> ImproperlyConfigured:
        limit = self._limits[name]
        return ImproperlyConfigured(
            f"{name} must be {kind} from {limit.least} to {limit.most} {limit.unit} ({limit.why}): "
            f"correct it, or remove it for the default, {default}"
        )


def load_environment_file(path: Path) -> list[str]:
    """Add the ``NAME=value`` lines of ``path``, if it is a file, to the environment; real variables win.

    Returns:
        The names in it.

    Raises:
        ImproperlyConfigured: Group or others may read, write or execute it (ASVS 13.3.1: it holds the master keys), it
            cannot be read, or a line is neither ``NAME=value``, a comment, nor empty.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return []
        with path.open(encoding="utf-8-sig") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & OTHERS:
                raise ImproperlyConfigured(
                    f"{path} holds secrets and is open to other users: chmod 600 {shlex.quote(str(path))}"
                )
            lines = file.read().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ImproperlyConfigured(
            f"{path} cannot be read ({reason}): make it this user's own UTF-8 file of mode 0600, "
            "or set IRONAUTH_ENV_FILE to another path"
        ) from None
    # Checked here because django-environ skips a malformed line and prints it, with the secret that it may hold.
    meant = [(at, line) for at, line in enumerate(lines, start=1) if line.strip() and not line.lstrip().startswith("#")]
    for at, line in meant:
        if LINE.fullmatch(line) is None:
            raise ImproperlyConfigured(f"{path}, line {at}: write NAME=value without spaces before =, or # to comment")
    environ.Env.read_env(io.StringIO("\n".join(line for _, line in meant)))
    return [line.partition("=")[0].removeprefix("export ") for _, line in meant]
