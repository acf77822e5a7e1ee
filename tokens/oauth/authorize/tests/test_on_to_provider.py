"""The page that goes on to another provider: rendered once for each language, and safe whatever the address is."""

from django.utils import translation

from tokens.oauth.authorize import responses

ADDRESS = "https://login.example/authorize?a=1&b=\"><script>'"


def test_it_leads_to_the_address_as_text() -> None:
    """Twice, in a refresh and in a link, escaped; another address is in no copy that is kept."""
    for address in (ADDRESS, "https://elsewhere.example/"):
        text = responses.on_to_provider(address).content.decode()
        shown = address.replace("&", "&amp;").replace('"', "&quot;").replace(">", "&gt;").replace("<", "&lt;")
        shown = shown.replace("'", "&#x27;")
        assert f'content="0; url={shown}"' in text
        assert f'<a href="{shown}">' in text
        assert "<script>'" not in text
        assert responses._MARK not in text


def test_it_is_rendered_once_for_each_language() -> None:
    """Each reader has their own words, and the second one a page that was rendered before."""
    responses._go_on_page.cache_clear()
    for _ in range(2):
        with translation.override("de"):
            german = responses.on_to_provider(ADDRESS).content.decode()
        with translation.override("en"):
            english = responses.on_to_provider(ADDRESS).content.decode()
    assert "Continue" in english
    assert "Continue" not in german
    assert responses._go_on_page.cache_info().misses == 2
