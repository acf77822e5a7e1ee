"""``{% brand as brand %}``: what a page shows of the operator."""

from django import template

from ironauth.infrastructure.http import brand as brands

register = template.Library()


@register.simple_tag
def brand() -> brands.Brand:
    """Return the brand as the settings have it."""
    return brands.current()
