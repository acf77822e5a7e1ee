"""The kinds of applications (``clients.presets``) on the form of a new client."""

from typing import Any, Final

from django.http import HttpRequest

from tokens.clients.models import OAuthClient
from tokens.clients.presets import PRESETS, Preset

PARAMETER: Final = "preset"
PROOF: Final = "How it proves who it is"  # the part of the form that has the keys


def chosen(request: HttpRequest) -> Preset | None:
    """Return the kind that the address names; None without one, and for an unknown one."""
    return PRESETS.get(request.GET.get(PARAMETER, ""))


def choices(request: HttpRequest) -> list[tuple[str, str, bool]]:
    """Return the kinds: words, address, and whether it is the one that is chosen."""
    found = chosen(request)
    return [(one.words, f"?{PARAMETER}={name}", one is found) for name, one in PRESETS.items()]


def _needs_keys(preset: Preset) -> bool:
    return bool(preset.initial["auth_method"] == OAuthClient.AuthMethod.PRIVATE_KEY_JWT)


def folded(fieldsets: list[tuple[Any, dict[str, Any]]], preset: Preset) -> list[tuple[Any, dict[str, Any]]]:
    """Return the parts of the form with those folded that the kind has answered.

    Args:
        fieldsets: The parts of the form, as Django's ``fieldsets``.
        preset: The kind of client that was chosen.
    """
    return [
        (words, options)
        if words is None or (words == "Addresses" and preset.redirects) or (words == PROOF and _needs_keys(preset))
        else (words, {**options, "classes": ("collapse",)})
        for words, options in fieldsets
    ]
