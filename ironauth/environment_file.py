"""Write the environment file of a first run: ``python -m ironauth.environment_file var/env``.

Only the standard library is used: this runs before anything is installed or configured. An existing file is never
touched, because it holds the only copy of the keys that open what the database stores.
"""

import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

SECRET_KEY_BYTES = 48  # 384 bits of randomness, 64 characters: above the 50 that Django's deployment check asks
MASTER_KEY_BYTES = 32  # 256 bits: AES-256-GCM, HMAC-SHA-256
FOLDER_MODE = 0o700
FILE_MODE = 0o600


def contents() -> str:
    """Return a new file's text: its own random secrets, and development mode."""
    return (
        "# Made by the first `make run`; yours to edit. Every variable: deploy/env.example\n"
        "# Keep it: without IRONAUTH_MASTER_KEYS nobody can open the signing keys in the database.\n"
        f"SECRET_KEY={secrets.token_urlsafe(SECRET_KEY_BYTES)}\n"
        f"IRONAUTH_MASTER_KEYS=k1:{secrets.token_urlsafe(MASTER_KEY_BYTES)}\n"
        "DEBUG=1\n"
    )


def create(path: Path) -> bool:
    """Create ``path`` (mode 0600) and its folder (0700) unless the file exists; return whether it was created.

    Raises:
        OSError: The folder or the file cannot be written.
    """
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    # Written aside and linked into place, so that two first runs at once agree on one file and none is half-written.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(contents())
            file.flush()
            os.fsync(descriptor)
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    path.parent.chmod(FOLDER_MODE)
    return True


def main(arguments: Sequence[str]) -> int:
    """Create the file named by the only argument and say so; return the exit status (1: could not, 2: usage)."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m ironauth.environment_file PATH\n")
        return 2
    path = Path(arguments[0])
    try:
        created = create(path)
    except OSError as error:
        sys.stderr.write(
            f"Cannot write {path} ({error.strerror}): make {path.parent}/ writable for this user "
            "(chown or chmod u+rwx), or set IRONAUTH_ENV_FILE to a path that is.\n"
        )
        return 1
    sys.stdout.write(f"Wrote {path} (mode 0600): random secrets, DEBUG=1.\n" if created else f"Kept {path}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
