"""What the laboratory's command lines take."""

import argparse

import pytest

from perf.load import __main__ as load
from perf.rig.arguments import Parser, local_url, number, whole_number


@pytest.mark.parametrize("text", ["x", "", "nan", "inf", "0.4", "20.1"])
def test_what_is_no_number_in_bounds_is_refused_with_an_example(text: str) -> None:
    """The message says from where to where, and shows one."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"is no number from 0\.5 to 20: give one such as 7"):
        number(0.5, 20, 7)(text)
    assert number(0.5, 20, 7)("0.5") == 0.5


@pytest.mark.parametrize("text", ["x", "1.5", "0", "65536"])
def test_what_is_no_whole_number_in_bounds_is_refused(text: str) -> None:
    """As numbers are."""
    with pytest.raises(argparse.ArgumentTypeError, match="is no whole number from 1 to 65,535"):
        whole_number(1, 65_535, 8_089)(text)
    assert whole_number(1, 65_535, 8_089)("65535") == 65_535


@pytest.mark.parametrize(
    "text", ["", "x", "https://127.0.0.1/", "http://192.0.2.1/", "http://127.0.0.1:x/", "http://127.0.0.1:0/"]
)
def test_load_goes_to_this_machine_only(text: str) -> None:
    """Anything else is refused before anything is sent."""
    with pytest.raises(argparse.ArgumentTypeError, match="such as http://127"):
        local_url(text)
    assert local_url("http://[::1]:9/x").port == 9


def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Without the paragraph of usage; --help has it."""
    with pytest.raises(SystemExit) as ended:
        Parser(prog="tool").parse_args(["--bogus"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "tool: unrecognized arguments: --bogus (see --help)\n"


def test_a_load_generator_refuses_what_it_cannot_send(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rate in words, for one."""
    monkeypatch.setattr("sys.argv", ["perf.load", "http://127.0.0.1:9/", "--rate", "fast"])
    with pytest.raises(SystemExit):
        load.main()
    assert "'fast' is no number from 0.01 to 20,000: give one such as 200" in capsys.readouterr().err
