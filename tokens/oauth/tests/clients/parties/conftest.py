"""What is collected here: the judges of agents alone, unless `make clients` runs it."""

import pytest

from tokens.oauth.tests.clients.conftest import BROWSER, provider
from tokens.oauth.tests.clients.default.ran import FOLDER, NETWORKS

__all__ = ["BROWSER", "provider"]

collect_ignore = [] if FOLDER is not None else ["test_browser.py", "test_programs.py", "test_sites.py"]


@pytest.fixture
def server_settings() -> dict[str, str]:
    """Applications of this machine hear of sign-outs."""
    return {"IRONAUTH_LOGOUT_NETWORKS": NETWORKS}
