"""How a page is looked at: size, colours, language, with or without scripts; all of them, or a few dealt out."""

from collections.abc import Iterable
from itertools import cycle, product
from typing import Final, Literal, NamedTuple

Theme = Literal["light", "dark"]


class Look(NamedTuple):
    """One way to look at pages."""

    width: int
    theme: Theme
    language: str
    scripts: bool

    @property
    def height(self) -> int:
        """The window's height: of a phone, or a desktop."""
        return 844 if self.width < 600 else 900

    def __str__(self) -> str:
        """Return the name it has in a test's."""
        return f"{self.width}-{self.theme}-{self.language}-{'scripts' if self.scripts else 'plain'}"


#: What each dimension has.
WIDTHS: Final = (390, 1280)
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")
LANGUAGES: Final = ("de", "en")
SCRIPTS: Final = (True, False)
#: The full product.
LOOKS: Final = tuple(Look(*one) for one in product(WIDTHS, THEMES, LANGUAGES, SCRIPTS))
#: Half of it, in which any three dimensions meet in every way: of each look and the one that differs in a single
#: dimension, one is here. Neighbours differ in all four, so that few journeys meet every value.
DEALT: Final = tuple(
    Look(*one)
    for one in (
        (390, "dark", "de", True),
        (1280, "light", "en", False),
        (390, "light", "de", False),
        (1280, "dark", "en", True),
        (390, "dark", "en", False),
        (1280, "light", "de", True),
        (390, "light", "en", True),
        (1280, "dark", "de", False),
    )
)


def all_walks(journeys: Iterable[tuple[str, bool]]) -> list[tuple[str, Look]]:
    """Return every journey in every look.

    Args:
        journeys: Each one's name, and whether it needs scripts.
    """
    return [(name, look) for name, needs in journeys for look in LOOKS if look.scripts or not needs]


def dealt_walks(journeys: Iterable[tuple[str, bool]]) -> list[tuple[str, Look]]:
    """Return each journey once, in looks that take turns; one that needs scripts takes the next look with them."""
    deck, scripted = cycle(DEALT), cycle([look for look in DEALT if look.scripts])
    return [(name, next(scripted if needs else deck)) for name, needs in journeys]
