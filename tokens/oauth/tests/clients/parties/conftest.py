"""What is collected here: nothing, unless `make clients` runs it."""

import pytest

from tokens.oauth.tests.clients.conftest import BROWSER, provider
from tokens.oauth.tests.clients.default.ran import FOLDER, NETWORKS

__all__ = ["BROWSER", "provider"]

collect_ignore_glob = [] if FOLDER is not None else ["test_*.py"]


@pytest.fixture
def server_settings() -> dict[str, str]:
    """Applications of this machine hear of sign-outs."""
    return {"IRONAUTH_LOGOUT_NETWORKS": NETWORKS}
