"""The master keys under the name this application has always used; they live below, where accounts use them too."""

from ironauth.infrastructure.master_keys import (
    DERIVED_BYTES,
    MasterKeyMissingError,
    Purpose,
    derived_key,
    newest_master_key_id,
)

__all__ = ["DERIVED_BYTES", "MasterKeyMissingError", "Purpose", "derived_key", "newest_master_key_id"]
