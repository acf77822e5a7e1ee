"""Names of cookies that are ours, that become ours in some reading, and that are others'."""

import re

#: Bytes that a name may have beside these letters: then it is another name.
IN_NAMES = re.compile(rb"[A-Za-z0-9_-]")
BLANKS = (b" ", b"\t")
#: Spaces and invisible characters beyond ASCII, as UTF-8 and as one byte, and what looks like our letters.
WIDE = [
    text.encode()
    for text in ("\xa0", "\x85", "\u2003", "\u3000", "\ufeff", "\u200b", "\u1680", "\u2028", "\u202e", "\U000e0020")
]
DISGUISES = [
    "__host-sso", "__HOST-SSO", '"__Host-sso"', "'__Host-sso'", "%5f%5fHost-sso", "%5F_Host%2Dsso", "%255f_Host-sso",
    "%25252525252525255f_Host-sso", "%a0__Host-sso", "__Host-sso%20", "__Host-sso%00", r'"\137\137Host-sso"',
    "__Host-\u017fso", "\uff3f\uff3fHost-sso", "__\uff28\uff4f\uff53\uff54-\uff53\uff53\uff4f",
    "__Host-sso\u0301", "_\u200b_Host-sso", "$__Host-sso", "+__Host-sso",
    "__Host-sso[]", "(__Host-sso)", "__Host-s\x00so", "_ _Host-sso", "=__Host-sso", "==__Host-sso", " = __Host-sso",
]  # fmt: skip
STRANGERS = ["sso", "x__Host-sso", "__Host-sso2", "__Host-ss\u043e", "__Host", "Host-sso", "__Secure-sso", "", "%", "é"]


def on_the_wire(text: str | bytes) -> str:
    """Return a name as Django decodes its bytes."""
    raw = text.encode() if isinstance(text, str) else text
    return raw.decode("latin-1")


def expected(before: bytes, after: bytes) -> str:
    """Return what a name of ours is with these bytes around it.

    ``ours``, ``another``, ``refused``, or ``other value`` for ours with a sign more in its value.
    """
    apart = (b"", b";", *BLANKS)
    if any(IN_NAMES.fullmatch(byte) for byte in (before, after)):
        return "another"
    if before in apart and after in (b"", *BLANKS):
        return "ours"
    return "other value" if before in apart and after == b"=" else "refused"
