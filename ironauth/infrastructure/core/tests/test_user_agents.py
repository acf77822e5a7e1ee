"""User agents in a few words."""

import pytest

from ironauth.infrastructure.core.user_agents import family, kind, short_name

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox, Linux"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/138.0.0.0 Safari/537.36",
         "Chrome, Windows"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/138.0.0.0 Safari/537.36 Edg/138.0.1",
         "Edge, Windows"),
        (f"Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) {WEBKIT} Version/19.0 Mobile/15E148 Safari/604.1",
         "Safari, iPhone"),
        ("curl/8.9", "curl/8.9"),
        ("", ""),
        ("x" * 40, "x" * 40),
        ("x" * 41, "x" * 39 + "…"),
        ("Mozilla/5.0 Firefox/1", "Firefox"),
        (f"Mozilla/5.0 (X11; Linux x86_64) {WEBKIT} HeadlessChrome/138.0.0.0 Safari/537.36", "Chrome, Linux"),
        (f"Mozilla/5.0 (Linux; Android 15; S) {WEBKIT} SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36",
         "Samsung Internet, Android"),
        ("Mozilla/5.0 (Windows NT 10.0) Own/1", "Windows"),
        ("Mozilla/5.0 (compatible; Own/1)", "Mozilla/5.0 (compatible; Own/1)"),
        ("Shop/1.2 (iPhone; iOS 19.0)", "Shop/1.2 (iPhone; iOS 19.0)"),
    ],
)  # fmt: skip
def test_short_name(user_agent: str, name: str) -> None:
    """A browser is named with its system, in the words of the account page; anything else by its own beginning."""
    assert short_name(user_agent) == name


@pytest.mark.parametrize(
    ("user_agent", "words"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/138.0.0.0 Safari/537.36 Edg/138.0.1",
         "Edge on Windows"),
        (f"Mozilla/5.0 (Linux; Android 15; Pixel 9) {WEBKIT} Chrome/138.0.0.0 Mobile Safari/537.36",
         "Chrome on Android"),
        (f"Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) {WEBKIT} Version/19.0 Mobile/15E148 Safari/604.1",
         "Safari on iPhone"),
        (f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) {WEBKIT} Version/19.0 Safari/604.1", "Safari on macOS"),
        ("Mozilla/5.0 (compatible; visit https://evil.example)", "a browser"),
        ("Shop/1.2 (iPhone; iOS 19.0)", "an application on iPhone"),
        ("curl/8.9", "an application"),
        ("", "an application"),
    ],
)  # fmt: skip
def test_kind(user_agent: str, words: str) -> None:
    """Only words of ours, whatever the client says, and none that an update changes."""
    assert kind(user_agent) == words


def test_family() -> None:
    """A browser's is its kind, a program's the name it gives itself."""
    assert family("Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0") == "Firefox on Linux"
    assert family("Shop/1.2 (iPhone; iOS 19.0)") == "Shop"
    assert family("") == ""
