"""How a node and a hash worker know each other: certificates of one private CA, or one user on one machine.

Both ends are checked. An impostor of the worker could let a wrong password in. An impostor of a node would have hashes
computed for nothing.
"""

import socket
import ssl
import struct
from pathlib import Path
from typing import Final

from django.core.exceptions import ImproperlyConfigured

_UCRED: Final = struct.Struct("3i")  # pid, uid, gid: unix(7)


def peer_uid(connection: socket.socket) -> int:
    """Return the user at the other end of a connected Unix socket, as the kernel noted it."""
    return int(_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[1])


def context(*, server: bool, cert: Path, key: Path, ca: Path) -> ssl.SSLContext:
    """Return TLS 1.3 that shows ``cert`` and accepts only certificates of ``ca``; a node checks the host name too.

    Args:
        server: whether this end is the hash worker.
        cert: a PEM certificate of this end.
        key: its unencrypted key.
        ca: the certificate of the CA that signed both ends'.

    Raises:
        ImproperlyConfigured: one of the files cannot be used.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3  # both ends are ours
    made.verify_mode = ssl.CERT_REQUIRED
    if server:
        made.num_tickets = 0  # connections are kept; and what waits to be read on an idle one means that it has ended
    try:
        made.load_verify_locations(ca)
        made.load_cert_chain(cert, key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ImproperlyConfigured(
            f"TLS with hash workers cannot use its files ({type(error).__name__}: {error}): name a PEM certificate, "
            "its unencrypted key, and the certificate of the CA that signed both ends'"
        ) from None
    return made


def _no_password() -> str:
    """Keep OpenSSL from asking a terminal for the password of an encrypted key."""
    raise ValueError("the key is encrypted")
