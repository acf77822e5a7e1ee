"""The choice of the Argon2 library in the log: at each start of a server and of a hash worker."""

from ironauth.infrastructure.hashing import argon2_build
from ironauth.infrastructure.hashing.argon2 import choice
from ironauth.infrastructure.telemetry.logs import get_logger


def choose() -> None:
    """Choose the library, and log which, with the CPU time of the trial; what had to be left out is a warning.

    Raises:
        Argon2Wrong: There is none that computes Argon2.
    """
    found = choice()
    build = argon2_build.build()
    fields = {"argon2": build, "trial_ms": found.trial_ms}
    if build != "native":
        fields["remedy"] = argon2_build.REMEDY
    get_logger().info("argon2_chosen", **fields)
    if found.refused:
        get_logger().warning("argon2_fallback", argon2=build, reason=found.refused)
