"""One-time codes from an app: RFC 6238 with what every app knows (SHA-1, six digits, 30 s), and their sealed secret."""

import base64
import hmac
import os
import re
from typing import Final
from uuid import UUID

import pyotp
import segno
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.hotp import HOTP
from django.conf import settings

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto import sealing
from ironauth.infrastructure.crypto.master_keys import register_purpose

DIGITS: Final = 6
STEP_S: Final = 30  # RFC 6238 §5.2
#: Steps before and after the present one whose code is taken: for slow fingers and clocks (RFC 6238 §5.2, §6).
WINDOW: Final = 1
SECRET_BYTES: Final = 20  # RFC 4226 §4 R6: 160 bits recommended
#: The shortest secret that is judged: 80 bits. RFC 4226 §4 R6 demands 128, but systems before it gave apps 80, and
#: people who come from there keep their app. Our own have 160.
LEAST_SECRET_BYTES: Final = 10
MOST_SECRET_BYTES: Final = 4 * SECRET_BYTES  # of one that comes from elsewhere
PURPOSE: Final = register_purpose("ironauth totp secret")
_DARK: Final = re.compile(rb"\x01+")  # the squares of a QR code's row that are dark


def new_secret() -> bytes:
    """Return 160 random bits."""
    return os.urandom(SECRET_BYTES)


def seal(secret: bytes, user_id: UUID) -> tuple[str, bytes]:
    """Return the id of the newest master key and the secret sealed under it; it opens for this user only.

    Args:
        secret: The shared secret, as bytes.
        user_id: Bound into the seal as associated data.
    """
    return sealing.seal(secret, PURPOSE, user_id.bytes)


def unseal(master_key_id: str, sealed: bytes, user_id: UUID) -> bytes:
    """Return the secret.

    Args:
        master_key_id: The key that it was sealed under.
        sealed: The sealed secret.
        user_id: The user it was sealed for.

    Raises:
        MasterKeyMissingError: Its master key has left the settings.
        SealBrokenError: It was damaged, or is another user's.
    """
    return sealing.unseal(master_key_id, sealed, PURPOSE, user_id.bytes)


def is_code(text: str) -> bool:
    """Tell whether ``text`` has the form of a code: six ASCII digits."""
    return len(text) == DIGITS and text.isascii() and text.isdigit()


def step_of(code: str, secret: bytes) -> int | None:
    """Return the time step whose code this is, of the present one and its neighbours; None for a wrong code.

    Libraries refuse the secrets that older systems gave away, unless they are told not to.

    Args:
        code: What was typed, six digits.
        secret: The shared secret, as bytes, of any length: whether it is long enough is for the caller to say.
    """
    now = int(clock.unix()) // STEP_S
    steps = range(max(now - WINDOW, 0), now + WINDOW + 1)
    right = [step for step in steps if hmac.compare_digest(_code(secret, step), code.encode())]
    return right[-1] if right else None


def _code(secret: bytes, step: int) -> bytes:
    """Return the code of a time step (RFC 4226 §5.3)."""
    app = HOTP(secret, DIGITS, SHA1(), enforce_key_length=False)  # noqa: S303 - the digest that every app knows
    return app.generate(step)


def as_text(secret: bytes) -> str:
    """Return the secret as people type it into an app: Base32 (RFC 4648 §6)."""
    return base64.b32encode(secret).decode()


def uri(secret: bytes, email: str) -> str:
    """Return the otpauth:// address that an app reads from the QR code; it shows our host and the person's address.

    Args:
        secret: The shared secret, as bytes.
        email: What the app shows to tell accounts apart.
    """
    return _app(secret).provisioning_uri(name=email, issuer_name=settings.IRONAUTH_BRAND_NAME)


def qr_svg(address: str) -> str:
    """Return the QR code of ``address`` as an SVG element without styles or scripts: a strict CSP shows it inline.

    Always mask 3: every reader takes any of the eight, and weighing them up takes 6.4 ms of the event loop for 1.9. At
    least the lowest correction, and more where it makes the code no larger: a screen has no stains, larger squares are
    read from further away, and for an ordinary address it is two sizes smaller and takes 1.4 ms for 2.0.
    """
    return _svg(segno.make(address, error="l", micro=False, mask=3).matrix)


def _svg(rows: tuple[bytearray, ...]) -> str:
    """Return what segno's ``svg_inline(scale=4, dark="#000", light="#fff")`` does, in 0.2 ms for its 0.5.

    Squares of 4 px and a margin of four of them (ISO/IEC 18004 §5.3.8); each row of dark ones is a line, drawn from
    where the last one ended.
    """
    lines = ["M4 4.5"]
    end = down = 0
    for row in rows:
        for run in _DARK.finditer(row):
            start, before = run.start(), end
            end = run.end()
            lines.append(f"m{start - before} {down}h{end - start}")
            down = 0
        down += 1
    side = len(rows) + 8
    return (
        f'<svg width="{4 * side}" height="{4 * side}" class="segno"><g transform="scale(4)">'
        f'<path fill="#fff" d="M0 0h{side}v{side}h-{side}z"/>'
        f'<path class="qrline" stroke="#000" d="{"".join(lines).replace("m0 0", "", 1)}"/></g></svg>'
    )


def _app(secret: bytes) -> pyotp.TOTP:
    return pyotp.TOTP(as_text(secret), digits=DIGITS, interval=STEP_S)
