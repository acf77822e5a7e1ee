"""The sessions of an account as its page shows them: those of one browser together."""

from typing import Any

from accounts.pages.overview import by_browser


def a_session(name: str, began_in: str | None = None, *, current: bool = False) -> dict[str, Any]:
    return {"id": name, "began_in": began_in, "current": current}


def shown(*sessions: dict[str, Any]) -> list[tuple[str, list[str], bool]]:
    """Return each browser's first session, what is below it, and whether it is the one that asks."""
    return [
        (one["session"]["id"], [rest["id"] for rest in one["rest"]], one["is_here"]) for one in by_browser(sessions)
    ]


def test_each_of_its_own() -> None:
    """Sessions that have nothing to do with each other are a row each, in the order of the API."""
    assert shown(a_session("b"), a_session("a", current=True)) == [("b", [], False), ("a", [], True)]
    assert shown() == []


def test_what_began_in_one_is_below_it() -> None:
    """In however many steps, wherever in the list the first one is; the browser that asks is told by any of them."""
    listed = [
        a_session("application", "sso"),
        a_session("elsewhere"),
        a_session("pages", current=True),
        a_session("sso", "pages"),
    ]
    assert shown(*listed) == [("pages", ["application", "sso"], True), ("elsewhere", [], False)]
    assert shown(*reversed(listed)) == [("pages", ["sso", "application"], True), ("elsewhere", [], False)]
