"""A user agent in a few words, for lists; it is the client's own claim, and decides nothing."""

import re

#: Product tokens in the order in which they tell: Edge and Opera claim to be Chrome, Chrome claims to be Safari.
_PRODUCTS = (
    ("Edg", "Edge"), ("EdgA", "Edge"), ("EdgiOS", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"),
    ("FxiOS", "Firefox"), ("CriOS", "Chrome"), ("Chrome", "Chrome"), ("Version", "Safari"),
)  # fmt: skip
_SHOWN = 40  # characters of an agent that is none of these


def short_name(user_agent: str) -> str:
    """Return e.g. "Firefox 140 (Windows NT 10.0)", or the beginning of what is not a known browser's user agent."""
    if user_agent.startswith("Mozilla/"):
        platform = re.search(r"\(([^;)]+)", user_agent)
        for token, name in _PRODUCTS:
            if version := re.search(rf"\b{token}/(\d+)", user_agent):
                return f"{name} {version[1]}" + (f" ({platform[1]})" if platform else "")
    return user_agent[:_SHOWN]
