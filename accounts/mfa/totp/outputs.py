"""What the API says of an app that is being set up."""

import msgspec


class TotpSetup(msgspec.Struct, frozen=True):
    """A secret that waits for its first code: as text to type, as an otpauth address, and as the QR code of that."""

    secret: str
    otpauth_uri: str
    qr_svg: str
