"""Which addresses can be registered, and which of them an address in a request means."""

import pytest

from tokens.clients import redirect_uris
from tokens.clients.models import URI_CHARACTERS

WEB = "https://app.example.com/callback"
LOOPBACK = "http://127.0.0.1:3000/callback"
LOOPBACK_6 = "http://[::1]/callback"
LOCAL = "http://localhost:3000/callback"
APP = "com.example.app:/callback"
WITH_QUERY = "https://app.example.com/callback?tenant=1"
REGISTERED = (WEB, LOOPBACK, LOOPBACK_6, LOCAL, APP, WITH_QUERY)

ACCEPTED = [
    *REGISTERED,
    "http://127.0.0.1:51004/callback",
    "http://127.0.0.1/callback",
    "http://127.0.0.1:1/callback",
    "http://127.0.0.1:65535/callback",
    "http://[::1]:8080/callback",
]

REJECTED = [
    "",
    # another address that begins, ends or looks like a registered one
    "https://app.example.com/callback/",
    "https://app.example.com/callback/more",
    "https://app.example.com/callbac",
    "https://app.example.com/callback2",
    "https://app.example.com/",
    "https://app.example.com",
    "https://app.example.com/Callback",
    "https://APP.example.com/callback",
    "HTTPS://app.example.com/callback",
    "https://app.example.com./callback",
    "https://app.example.com:443/callback",
    "https://app.example.com:8443/callback",
    "https://app.example.com:/callback",
    "http://app.example.com/callback",
    "//app.example.com/callback",
    "app.example.com/callback",
    "/callback",
    "https:/app.example.com/callback",
    "https:app.example.com/callback",
    "https:///app.example.com/callback",
    # additions
    "https://app.example.com/callback?",
    "https://app.example.com/callback?code=stolen",
    "https://app.example.com/callback?tenant=2",
    "https://app.example.com/callback?tenant=1&x=1",
    "https://app.example.com/callback;x=1",
    "https://app.example.com/callback#",
    "https://app.example.com/callback#fragment",
    "https://app.example.com/callback%23",
    # other hosts
    "https://evil.example/callback",
    "https://app.example.com.evil.example/callback",
    "https://evil.example/app.example.com/callback",
    "https://evilapp.example.com/callback",
    "https://sub.app.example.com/callback",
    "https://app-example.com/callback",
    "https://app.example.com@evil.example/callback",
    "https://user@app.example.com/callback",
    "https://user:pass@app.example.com/callback",
    "https://evil.example\\@app.example.com/callback",
    "https://evil.example#@app.example.com/callback",
    "https://evil.example?@app.example.com/callback",
    "https://evil.example%2f@app.example.com/callback",
    "https://app.example.com%00.evil.example/callback",
    "https://app.example.com%2eevil.example/callback",
    "https://app.example.com\\.evil.example/callback",
    "https://*.example.com/callback",
    "https://аpp.example.com/callback",  # noqa: RUF001 - a Cyrillic letter is the case
    "https://app.example.com。evil.example/callback",
    "https://app.example.com\u200b/callback",
    # paths that some reader resolves
    "https://app.example.com/x/../callback",
    "https://app.example.com/./callback",
    "https://app.example.com/callback/../../evil",
    "https://app.example.com/callback/..",
    "https://app.example.com/%63allback",
    "https://app.example.com/callback%2f..%2fevil",
    "https://app.example.com/callback%252f..",
    "https://app.example.com/%2e%2e/callback",
    "https://app.example.com//callback",
    "https://app.example.com/\\callback",
    "https://app.example.com\\callback",
    "https://app.example.com/callback\\..\\evil",
    # white space and controls
    " https://app.example.com/callback",
    "https://app.example.com/callback ",
    "https://app.example.com/callback\n",
    "https://app.example.com/callback\r\nLocation: https://evil.example",
    "https://app.example.com/callback%0d%0aSet-Cookie:x=1",
    "https://app.example.com/call\tback",
    "https://app.example.com/callback\x00",
    # schemes
    "javascript:alert(1)//https://app.example.com/callback",
    "data:text/html,<script>alert(1)</script>",
    "file:///callback",
    "vbscript:x",
    "urn:ietf:wg:oauth:2.0:oob",
    "com.example.app:/callback/",
    "com.example.app://callback",
    "com.example.app:/callback#x",
    "com.example.evil:/callback",
    "COM.EXAMPLE.APP:/callback",
    # what is not the port of a loopback address
    "https://127.0.0.1:3000/callback",
    "http://127.0.0.1:3000/callback2",
    "http://127.0.0.1:3000/callback?x=1",
    "http://127.0.0.1:3000/callback#x",
    "http://127.0.0.1:3000/callback\n",
    "http://127.0.0.1:3000",
    "http://127.0.0.1:0/callback",
    "http://127.0.0.1:03000/callback",
    "http://127.0.0.1:65536/callback",
    "http://127.0.0.1:999999/callback",
    "http://127.0.0.1:/callback",
    "http://127.0.0.1:-1/callback",
    "http://127.0.0.1:٣٠٠٠/callback",
    "http://127.0.0.1:3000@evil.example/callback",
    "http://user@127.0.0.1:3000/callback",
    "http://127.0.0.1.evil.example/callback",
    "http://127.0.0.2:3000/callback",
    "http://127.1:3000/callback",
    "http://2130706433:3000/callback",
    "http://0.0.0.0:3000/callback",
    "http://[::ffff:127.0.0.1]:3000/callback",
    "http://[0:0:0:0:0:0:0:1]/callback",
    "http://[::1]:8080/evil",
    "http://[::1%25eth0]/callback",
    "HTTP://127.0.0.1:3000/callback",
    # localhost is a name: its port is compared as well
    "http://localhost:3001/callback",
    "http://localhost/callback",
    "https://localhost:3000/callback",
    "http://localhost.evil.example:3000/callback",
]


@pytest.mark.parametrize("given", ACCEPTED)
def test_cases_redirect_uri_accepted(given: str) -> None:
    """A registered address is accepted by every character; of a loopback address the port may be another."""
    assert redirect_uris.matches(REGISTERED, given)


@pytest.mark.parametrize("given", REJECTED)
def test_cases_redirect_uri_rejected(given: str) -> None:
    """Whatever differs from all registered addresses by a character is refused (security-bar 37)."""
    assert not redirect_uris.matches(REGISTERED, given)


def test_there_are_as_many_cases_as_asked_for() -> None:
    """Security-bar 37 asks for 55 rejected and 4 accepted; none is there twice."""
    assert len(set(REJECTED)) == len(REJECTED) >= 55
    assert len(set(ACCEPTED)) == len(ACCEPTED) >= 4


def test_nothing_registered_accepts_nothing() -> None:
    """A client without addresses has none by accident."""
    assert not redirect_uris.matches((), "")
    assert not redirect_uris.matches((), WEB)
    assert not redirect_uris.matches((WEB,), LOOPBACK)


@pytest.mark.parametrize(
    "uri",
    [
        *REGISTERED,
        "https://app.example.com",
        "https://app.example.com/",
        "https://app.example.com:8443/a/b;v=1/c",
        "https://xn--bcher-kva.example/r%C3%BCck",
        "https://192.0.2.1/cb",
        "https://[2001:db8::1]/cb",
        "https://intranet/cb",
        "http://localhost/",
        "http://127.0.0.1",
        "https://app.example.com/cb?next=%2Fhome",
        "com.example.app:/",
        "app.example:/oauth/cb?tenant=1",
        "https://a.example/" + "x" * (URI_CHARACTERS - 18),
    ],
)
def test_what_can_be_registered(uri: str) -> None:
    """Pages by https, this machine by http, and schemes with a dot."""
    assert redirect_uris.problem_of(uri) is None
    assert redirect_uris.matches([uri], uri)


@pytest.mark.parametrize(
    ("uri", "remedy"),
    [
        ("", "write it like"),
        ("https://a.example/" + "x" * (URI_CHARACTERS - 17), "write it like"),
        ("https://app.example.com/cb#", "leave out #"),
        ("https://app.example.com/cb#x", "leave out #"),
        ("https://*.example.com/cb", "register each"),
        ("https://app.example.com/*", "register each"),
        ("https://bücher.example/cb", "xn--"),
        ("https://app.example.com/a b", "%XX"),
        ("https://app.example.com/a\\b", "%XX"),
        ("https://app.example.com/a\n", "%XX"),
        ("https://app.example.com/%", "%XX"),
        ("https://app.example.com/%zz", "%XX"),
        ('https://app.example.com/"', "%XX"),
        ("https://app.example.com/<x>", "%XX"),
        ("http://app.example.com/cb", "write https://"),
        ("http://127.0.0.2/cb", "write https://"),
        ("http://testserver/cb", "write https://"),
        ("http://192.168.0.1/cb", "write https://"),
        ("http://localhost.evil.example/cb", "write https://"),
        ("https://user@app.example.com/cb", "write it like"),
        ("https://user:pass@app.example.com/cb", "write it like"),
        ("https://@app.example.com/cb", "write it like"),
        ("https:app.example.com/cb", "write it like"),
        ("https:/app.example.com/cb", "write it like"),
        ("https:///cb", "write it like"),
        ("https://", "write it like"),
        ("https://APP.example.com/cb", "write it like"),
        ("https://app.example.com./cb", "write it like"),
        ("https://-app.example.com/cb", "write it like"),
        ("https://app_1.example.com/cb", "write it like"),
        ("https://app..example.com/cb", "write it like"),
        ("https://app%2eexample.com/cb", "write it like"),
        ("https://127.1/cb", "write it like"),
        ("https://[::0001]/cb", "write it like"),
        ("https://[::1%25lo]/cb", "write it like"),
        ("https://[::1/cb", "write it like"),
        ("https://app.example.com:/cb", "The port"),
        ("https://app.example.com:0/cb", "The port"),
        ("https://app.example.com:0443/cb", "The port"),
        ("https://app.example.com:65536/cb", "The port"),
        ("https://app.example.com:x/cb", "write it like"),
        ("https://app.example.com/a/../b", "as the application serves it"),
        ("https://app.example.com/./b", "as the application serves it"),
        ("https://app.example.com/..;/b", "as the application serves it"),
        ("https://app.example.com/a/..", "as the application serves it"),
        ("https://app.example.com/%2E%2e/b", "as the application serves it"),
        ("https://app.example.com/a%2fb", "as the application serves it"),
        ("https://app.example.com/a%5Cb", "as the application serves it"),
        ("https://app.example.com/a%252fb", "as the application serves it"),
        ("https://app.example.com/a%0d%0ab", "as the application serves it"),
        ("https://app.example.com/a%00", "as the application serves it"),
        ("https://app.example.com//b", "leave one out"),
        ("https://app.example.com/cb?x=%0a", "control character"),
        ("https://app.example.com/cb?code=1", "rename it"),
        ("https://app.example.com/cb?a=1&state", "rename it"),
        ("https://app.example.com/cb?%69ss=x", "rename it"),
        ("javascript:alert(1)", "can be registered"),
        ("data:text/html,x", "can be registered"),
        ("file:///etc/passwd", "can be registered"),
        ("myapp:/cb", "can be registered"),
        ("com.example.app:cb", "can be registered"),
        ("Com.Example.App:/cb", "can be registered"),
        ("HTTPS://app.example.com/cb", "can be registered"),
        ("ftp://app.example.com/cb", "can be registered"),
        ("urn:ietf:wg:oauth:2.0:oob", "can be registered"),
        ("/cb", "can be registered"),
        ("com.example.app:/a/../b", "as the application serves it"),
        ("com.example.app://cb", "leave one out"),
        ("com.example.app:/cb?code=1", "rename it"),
    ],
)
def test_what_cannot_be_registered(uri: str, remedy: str) -> None:
    """What two readers may take for different addresses is refused as typed, with what to write instead."""
    problem = redirect_uris.problem_of(uri)
    assert problem is not None
    assert remedy in problem


def test_schemes_of_applications_are_told_apart() -> None:
    """They are for public clients only, which their caller checks."""
    assert [uri for uri in REGISTERED if redirect_uris.is_private_use(uri)] == [APP]
