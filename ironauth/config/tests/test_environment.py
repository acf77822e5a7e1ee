"""Typed reading of environment variables, and of the file with them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from ironauth.config.environment import Environment, Limit, load_environment_file

LIMITS = {"X_S": Limit(2, 60, "seconds", "for this test")}


def given(value: str, name: str = "X_S") -> Environment:
    """Return an environment in which one variable is set."""
    return Environment({name: value}, LIMITS)


def refusal(refused: pytest.ExceptionInfo[ImproperlyConfigured], name: str) -> str:
    """Return the message after checking what all have in common: one line that names the variable first."""
    message = str(refused.value)
    assert message.startswith(f"{name} ")
    assert "\n" not in message
    return message


def test_what_is_not_set_has_its_default() -> None:
    """Without the variable every reader returns its default."""
    empty = Environment({}, LIMITS)
    assert empty.text("X", default="a") == "a"
    assert empty.words("X") == []
    assert empty.words("X", default=["a"]) == ["a"]
    assert empty.switch("X", default=True) is True
    assert empty.choice("X", choices=("A", "B"), default="B") == "B"
    assert empty.whole("X_S", default=7) == 7
    assert empty.number("X_S", default=7.5) == 7.5


def test_a_misspelt_name_is_refused_with_the_right_one() -> None:
    """A setting that would be silently ignored stops the start; what resembles none, or is one, does not."""
    for wrong in ("IRONAUTH_HAHS_THREADS", "IRONAUTH_HASH_THREAD", "IRONAUTH_HASHTHREADS"):
        environment = Environment({wrong: "3"}, LIMITS)
        environment.switch("IRONAUTH_HASH_THREADS", default=True)
        with pytest.raises(ImproperlyConfigured) as refused:
            environment.refuse_misspelt()
        assert refusal(refused, wrong) == f"{wrong} is no setting: rename it to IRONAUTH_HASH_THREADS, or remove it"
    unrelated = {"IRONAUTH_PORT": "tcp://10.0.0.1:80", "IRONAUTH_SERVICE_HOST": "10.0.0.1", "HASH_THREADSS": "1"}
    environment = Environment(unrelated | {"IRONAUTH_HASH_THREADS": "1"}, LIMITS)
    environment.switch("IRONAUTH_HASH_THREADS", default=True)
    environment.text("REDIS_URL", default="")
    environment.refuse_misspelt(of_ours=["PGPASSWORD", "REDIS_URL"])
    with pytest.raises(ImproperlyConfigured, match=r"^REDIS_URLL is no setting: rename it to REDIS_URL, or remove it$"):
        environment.refuse_misspelt(of_ours=["REDIS_URLL"])


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *((word, True) for word in ("1", "true", "YES", "On", " 1 ")),
        *((word, False) for word in ("0", "False", "no", "OFF", "0\n")),
    ],
)
def test_the_words_of_a_switch(word: str, *, meant: bool) -> None:
    """1/0, true/false, yes/no, on/off in any case are understood, whatever the default is."""
    assert given(word).switch("X_S", default=not meant) is meant


@pytest.mark.parametrize("word", ["maybe", "", " ", "2", "10", "y", "ok", "enabled", "tru", "None", "-1", "1.0"])
def test_other_words_are_no_switch(word: str) -> None:
    """Any other word stops the start instead of counting as off."""
    with pytest.raises(ImproperlyConfigured) as refused:
        given(word).switch("X_S", default=True)
    assert "1 or 0" in refusal(refused, "X_S")


@pytest.mark.parametrize("value", ["2", "60", " 30 ", "007"])
def test_numbers_within_the_limit(value: str) -> None:
    """Both ends belong to what is allowed."""
    assert given(value).whole("X_S", default=5) == int(value)
    assert given(value).number("X_S", default=5) == float(value)


@pytest.mark.parametrize("value", ["2.0", "59.99", "2.5"])
def test_decimals_are_numbers_but_not_whole(value: str) -> None:
    """Only `number` takes decimals."""
    assert given(value).number("X_S", default=5) == float(value)
    with pytest.raises(ImproperlyConfigured, match="a whole number from 2 to 60 seconds"):
        given(value).whole("X_S", default=5)


@pytest.mark.parametrize(
    "value",
    [
        *("1", "61", "0", "-5", "1.99", "60.01", "9" * 5_000),
        *("abc", "", " ", "nan", "inf", "-inf", "1e1", "1_0", "+5", "\N{FULLWIDTH DIGIT FIVE}", "5 6", "5\n6", "0x5"),
    ],
)
def test_numbers_outside_the_limit(value: str) -> None:
    """Too little, too much, and what is not a plain finite number are refused with bounds, unit and reason."""
    for read in (given(value).whole, given(value).number):
        with pytest.raises(ImproperlyConfigured) as refused:
            read("X_S", default=5)
        assert "number from 2 to 60 seconds (for this test): correct it, or remove it for the default, 5" in refusal(
            refused, "X_S"
        )


def test_a_choice_ignores_case() -> None:
    """A choice is found in any case, and returned as the list spells it."""
    assert given("info").choice("X_S", choices=("DEBUG", "INFO"), default="DEBUG") == "INFO"


@pytest.mark.parametrize("value", ["FOO", "", "INF", "DEBUG,INFO"])
def test_another_choice_is_refused(value: str) -> None:
    """What is not in the list is refused, and the message has the list."""
    with pytest.raises(ImproperlyConfigured) as refused:
        given(value).choice("X_S", choices=("DEBUG", "INFO"), default="INFO")
    assert "INFO" in refusal(refused, "X_S") or not value


def test_an_empty_text_is_refused_where_there_is_a_default() -> None:
    """A variable that is set to nothing is a mistake, unless nothing is its default."""
    assert given("  ").text("X_S", default="") == ""
    assert given(" a ").text("X_S", default="b") == "a"
    with pytest.raises(ImproperlyConfigured) as refused:
        given(" ").text("X_S", default="b")
    assert "is empty" in refusal(refused, "X_S")


def test_words_are_trimmed() -> None:
    """Spaces around commas and empty items do not count; set to nothing means none, not the default."""
    assert given(" a, b,,c ").words("X_S") == ["a", "b", "c"]
    assert given("").words("X_S", default=["a"]) == []


def test_a_dollar_is_a_character() -> None:
    """A value that begins with $ is not taken for the name of another variable: a secret may begin with it."""
    assert given("$HOME").text("X_S", default="") == "$HOME"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A private file with one variable, a comment and an empty line."""
    path = tmp_path / "env"
    path.write_text('# hello\n\n  # indented\nIRONAUTH_X_TEST="from file"\nexport IRONAUTH_Y_TEST=a=b\n')
    path.chmod(0o600)
    return path


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget afterwards what a file added to the environment."""
    for name in ("IRONAUTH_X_TEST", "IRONAUTH_Y_TEST"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_a_private_file_is_read(file: Path) -> None:
    """Its variables are added to the environment; comments and empty lines are not."""
    load_environment_file(file)
    assert os.environ["IRONAUTH_X_TEST"] == "from file"
    assert os.environ["IRONAUTH_Y_TEST"] == "a=b"


def test_the_real_environment_wins(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is set already keeps its value."""
    monkeypatch.setenv("IRONAUTH_X_TEST", "real")
    load_environment_file(file)
    assert os.environ["IRONAUTH_X_TEST"] == "real"


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_modes_for_the_owner_alone(file: Path, mode: int) -> None:
    """Whatever the owner may do is fine."""
    file.chmod(mode)
    load_environment_file(file)
    assert os.environ["IRONAUTH_X_TEST"] == "from file"


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601, 0o644, 0o666, 0o777])
def test_modes_for_others_are_refused(file: Path, mode: int) -> None:
    """Any permission of the group or of others stops the start, with the command that mends it, and nothing is read."""
    file.chmod(mode)
    with pytest.raises(ImproperlyConfigured) as refused:
        load_environment_file(file)
    assert str(refused.value).endswith(f": chmod 600 {file}")
    assert "IRONAUTH_X_TEST" not in os.environ


def test_a_link_is_judged_by_its_target(file: Path, tmp_path: Path) -> None:
    """A symbolic link (mode 0777 by nature) is as private as the file it leads to."""
    link = tmp_path / "link"
    link.symlink_to(file)
    load_environment_file(link)
    file.chmod(0o640)
    with pytest.raises(ImproperlyConfigured, match="chmod 600"):
        load_environment_file(link)


def test_no_file_is_no_error(tmp_path: Path) -> None:
    """A path without a file, a folder, and a device are passed over."""
    for path in (tmp_path / "none", tmp_path, Path(os.devnull)):
        load_environment_file(path)


@pytest.mark.parametrize(
    "line", ["IRONAUTH_X_TEST = hush-hush", "hush-hush", "X-Y=hush-hush", "1X=hush-hush", "=hush-hush"]
)
def test_a_malformed_line_is_refused_by_its_number(file: Path, line: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A line that would be skipped stops the start; it is named by number, because it may hold a secret."""
    file.write_text(f"IRONAUTH_X_TEST=1\n{line}\n")
    with pytest.raises(ImproperlyConfigured) as refused:
        load_environment_file(file)
    assert str(refused.value).startswith(f"{file}, line 2: write NAME=value")
    assert "hush-hush" not in str(refused.value) + "".join(capfd.readouterr())


def test_a_file_that_is_not_text_is_refused(file: Path) -> None:
    """Bytes that are no UTF-8 are one line, not a decoding error."""
    file.write_bytes(b"SECRET_KEY=\xff\xfe\n")
    with pytest.raises(ImproperlyConfigured, match=r"cannot be read .it is not UTF-8.: .* IRONAUTH_ENV_FILE"):
        load_environment_file(file)


def test_another_users_file_is_one_line(file: Path) -> None:
    """A file that this user may not read is refused by name instead of being passed over."""
    file.chmod(0)
    code = (
        "import os, sys; from pathlib import Path\n"
        "from ironauth.config.environment import load_environment_file\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: load_environment_file(Path(sys.argv[1]))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    command = [sys.executable, "-c", code, str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=settings.BASE_DIR)
    assert result.stdout.startswith(f"ImproperlyConfigured {file} cannot be read (Permission denied): make it ")
