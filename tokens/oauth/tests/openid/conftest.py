"""The server that all modules ask, started once."""

import os
from collections.abc import Iterator

import pytest

from ironauth import settings_test
from ironauth.tests.deploy.chain import program
from ironauth.tests.services import BinaryMissing
from tokens.oauth.tests.openid.site import Site


@pytest.fixture(scope="package")
def site() -> Iterator[Site]:
    """The nginx that ships, and a server with an empty database."""
    try:
        program("nginx", "nginx-light")
    except BinaryMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    folder = settings_test.RUN_FOLDER / "openid"
    folder.mkdir(mode=0o711)
    made = Site(folder)
    try:
        made.start()
        yield made
    finally:
        made.close()
