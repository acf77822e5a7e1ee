"""The guide to the admin API, as its readers use it: pasted into a shell, with a machine that the page makes."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from accounts.access.scopes import SCOPES
from accounts.users.models import User
from ironauth.tests.test_readme import NAME, NEXT, page, pasted, tour
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client

GUIDE = "docs/guides/admin-api.md"
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.live]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page is made with curl")
def test_the_guide_can_be_pasted(
    serve_process: Callable[..., str], signing_key: str, rs256_key: str, tmp_path: Path
) -> None:
    """Every block gets the answers that are printed below it, with the scopes that its client is made with."""
    text = page(GUIDE)
    command = text.partition("oauth_client create")[2].partition("\n\n")[0]
    scope = re.findall(r'--scope "([^"]+)"', command)[0].split()
    assert "--administers" in command
    client, secret = make_client(
        name="Provisioning", grants=["client_credentials"], redirect_uris=[], scopes=scope, administers=True
    )
    User.objects.create_user("mia@example.com", name="Mia")
    port = str(urlsplit(serve_process()).port)
    steps = tour(text)
    script = "".join(f"{commands}echo '{NEXT}'\n" for commands, _ in steps)
    known = {"CLIENT_ID": str(client.pk), "CLIENT_SECRET": secret, "PORT": port}
    result = pasted("sh", script, tmp_path, **known)
    assert (result.returncode, result.stderr) == (0, "")
    answers = result.stdout.split(f"{NEXT}\n")[:-1]
    assert len(answers) == len(steps)
    for answer, (commands, printed) in zip(answers, steps, strict=True):
        assert set(NAME.findall(printed)) <= set(NAME.findall(answer)), (commands, answer)
        for status in re.findall(r'^\d{3}$|"status":\d{3}|"code":"\w+"', printed, re.MULTILINE):
            assert status in answer, (commands, answer)
        assert ('"status":' in answer) == ('"status":' in printed), (commands, answer)
    assert OAuthClient.objects.count() == 1


def test_the_guide_names_every_scope() -> None:
    """And the rights that each covers."""
    text = page(GUIDE)
    for scope in SCOPES:
        assert f"`{scope}`" in text, scope
