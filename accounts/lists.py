"""The query of a list that is read in pages: its cursor, the size of a page, and the text it is searched by."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django.core.exceptions import ValidationError
from rest_framework import serializers

from accounts.fields import TextField
from ironauth.infrastructure.api import paging

DEFAULT_PAGE_SIZE: Final = 50  # rows; a screenful or two
MAX_PAGE_SIZE: Final = 200  # rows; about 60 kB of JSON where they are users
MAX_CURSOR: Final = 2048  # characters; ours stay below 600


def no_controls(text: str) -> None:
    """Refuse control characters, which no name has and Postgres may not even be asked for.

    Args:
        text: The text as it was sent.

    Raises:
        ValidationError: Django's, where there is one.
    """
    if any(char < " " for char in text):
        raise ValidationError("Control characters cannot be searched for: leave them out.", code="search_character")


class SearchField(TextField):
    """The text that a list is searched by; one that is longer than what it is compared with is refused."""

    def __init__(self, *, most: int, **options: Any) -> None:
        self.most = most  # characters
        super().__init__(required=False, allow_blank=True, validate=self._judge, **options)

    def _judge(self, text: str) -> None:
        no_controls(text)
        if len(text) > self.most:
            raise ValidationError(f"Search for at most {self.most} characters.", code="search_too_long")


class ListInput(serializers.Serializer[Any]):
    """The query of a list that is read in pages.

    Attributes:
        places: What a cursor of the list names as its ordering, by the value of the field ``ordering``; of a list
            that has one order, by "".
    """

    places: ClassVar[Mapping[str, str]]

    cursor = TextField(required=False, allow_blank=True, help_text="From `next` or `previous` of another page.")
    page_size = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_PAGE_SIZE,
        default=DEFAULT_PAGE_SIZE,
        help_text="Rows of a page.",
    )

    def validate_cursor(self, text: str) -> str:
        """Refuse what is no cursor of this list in the order that is asked for."""
        ordered = "ordering" in self.fields
        asked = self.initial_data.get("ordering", self.fields["ordering"].default) if ordered else ""
        places = [self.places[asked]] if asked in self.places else self.places.values()  # a bad one is reported itself
        if len(text) > MAX_CURSOR or (text and not any(paging.belongs(text, place) for place in places)):
            list_of = "this list and ordering" if ordered else "this list"
            raise serializers.ValidationError(
                f"This cursor does not belong to {list_of}: start without one.", code="invalid_cursor"
            )
        return text
