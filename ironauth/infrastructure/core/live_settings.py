"""Django's settings for what every request reads.

``django.conf.settings`` answers each reading in Python, in 0.2 µs, and a request has a dozen of them. Here a value is a
plain attribute after its first reading, until Django's signal tells that the setting has changed. ``override_settings``
sends it, and nothing else may change a setting.
"""

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.signals import setting_changed


class _LiveSettings:
    def __getattr__(self, name: str) -> Any:
        """Read ``name`` for the first time. Raises ``AttributeError`` when there is no such setting."""
        value = getattr(settings, name)
        setattr(self, name, value)
        return value


_live = _LiveSettings()
if TYPE_CHECKING:
    live = settings  # their types
else:
    live = _live


def _forget(*, setting: str, **_: object) -> None:
    vars(_live).pop(setting, None)


setting_changed.connect(_forget, dispatch_uid="ironauth.live_settings")
