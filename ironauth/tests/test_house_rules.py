"""Rules of the house that no linter knows: sentences for tests, small modules, reasons for suppressions."""

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_permission_codename

from accounts.access.scopes import SCOPES

ROOT = Path(settings.BASE_DIR)
#: Lines; a module that outgrew it holds more than one idea (design, rule 2).
MODULE_LIMIT = 400
#: Where people and clients are served, and where their code and files are: their owner registers them.
FEATURE = re.compile(r"^/?(account|email|password|oauth|accounts|tokens)[./]|/(oauth|access|signin)(/|$)")
#: Tests, and fixtures beside rooms.
TEST_CODE = re.compile(r"(^|/)(tests/|conftest\.py$)")
SUPPRESSION = re.compile(r"#\s*(noqa\b|type:\s*ignore)(?P<rest>.*)")


def python_files() -> list[Path]:
    """Return every Python file of the project except migrations."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return [ROOT / name for name in listed if "/migrations/" not in name and (ROOT / name).exists()]


def at_the_top(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a module and of its classes, where pytest looks for tests."""
    for node in tree.body:
        yield from node.body if isinstance(node, ast.ClassDef) else [node]


def test_every_test_says_in_a_sentence_what_must_hold() -> None:
    """Each test function has a docstring that ends like a sentence."""
    missing = [
        f"{file.relative_to(ROOT)}: {node.name}"
        for file in python_files()
        if file.name.startswith("test_")
        for node in at_the_top(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        if not (ast.get_docstring(node) or "").split("\n\n")[0].rstrip().endswith(".")
    ]
    assert not missing


def test_modules_hold_one_idea() -> None:
    """No module of the product is longer than 400 lines."""
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text().splitlines())
        for file in python_files()
        if "tests" not in file.parts
    }
    assert not {name: lines for name, lines in lengths.items() if lines > MODULE_LIMIT}


def test_every_suppression_has_its_code_and_its_reason() -> None:
    """A suppression in the product names its code and says why, on its own line."""
    bare = []
    for file in python_files():
        if "tests" in file.parts:
            continue
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            match = SUPPRESSION.search(line)
            if match and not re.search(r"([A-Z]+[0-9]+|\[[a-z-]+(, [a-z-]+)*\]).*( - | # )\S+", match["rest"]):
                bare.append(f"{file.relative_to(ROOT)}:{number}")
    assert not bare


@pytest.mark.parametrize("name", ["helpers", "utils", "common", "misc"])
def test_no_module_is_named_after_nothing(name: str) -> None:
    """A file's name says its role."""
    assert not [file for file in python_files() if name in file.stem.split("_")]


def texts_of(file: Path) -> list[tuple[int, str]]:
    """Return line and value of every string of a module that is not a docstring."""
    tree = ast.parse(file.read_text())
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements
    ]


#: What a module of units of work says of itself, in the first paragraph of its docstring.
UNITS = re.compile(r"^units of\b|(\b(as|are)|[:.]) (a )?units? of work\b", re.IGNORECASE)
#: Modules of units that are named after what they keep. The list may only become shorter.
UNITS_NAMED_OTHERWISE = {
    "accounts/outbox/queue.py",
    "accounts/outbox/tokens.py",
    "tokens/oauth/authorize/mailed_pages.py",
    "tokens/oauth/authorize/services.py",
    "tokens/sessions/client_sessions.py",
    "tokens/sessions/known_devices.py",
    "tokens/sign_in/going_on.py",
}


def test_units_of_work_have_one_name() -> None:
    """A module that calls itself units of work is named ``units``; others are listed."""
    named = {
        str(file.relative_to(ROOT)): file.stem
        for file in python_files()
        if file.relative_to(ROOT).parts[0] in {"accounts", "tokens"} and "tests" not in file.parts
        if UNITS.search((ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0])
    }
    assert "units" in named.values()
    assert {name for name, stem in named.items() if stem != "units"} == UNITS_NAMED_OTHERWISE


def test_infrastructure_names_no_path_of_a_feature() -> None:
    """Infrastructure has no URL, module or file of accounts and tokens in it: their owner registers them."""
    room = ROOT / "ironauth/infrastructure"
    files = [file for file in python_files() if file.is_relative_to(room) and "tests" not in file.parts]
    named = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file in files
        for line, text in texts_of(file)
        if FEATURE.search(text)
    ]
    assert files
    assert not named
    assert all(map(FEATURE.search, ("/oauth/", "/account/", "/api/v1/access/", "tokens.sessions", "tokens/admin.css")))


def test_infrastructure_says_nothing_of_signing_in() -> None:
    """No text, docstring or comment of infrastructure names a sign-in: it knows jobs, hashes and requests."""
    room, words = ROOT / "ironauth/infrastructure", re.compile(r"\bsign(s|ed|ing)?[- ](in|out|up)\b", re.IGNORECASE)
    named = [
        f"{file.relative_to(ROOT)}: {found.group()}"
        for file in python_files()
        if file.is_relative_to(room) and "tests" not in file.parts
        for found in words.finditer(re.sub(r"\s+(#:? )?\s*", " ", file.read_text()))
    ]
    assert not named
    assert words.search("No sign-in has tried it.")


#: Modules that name a right again, since they may not import the module that has it: `accounts` does not know `tokens`,
#: and the outbox lies below rights. The list may only become shorter.
NAMED_AGAIN = {
    "accounts/access/scopes.py": {
        "tokens.add_oauthclient", "tokens.change_oauthclient", "tokens.change_signingkey", "tokens.delete_consent",
        "tokens.delete_oauthclient", "tokens.delete_session", "tokens.view_consent", "tokens.view_oauthclient",
        "tokens.view_signingkey", "tokens.add_apiresource", "tokens.change_apiresource", "tokens.delete_apiresource",
        "tokens.view_apiresource", "tokens.add_detailtype", "tokens.change_detailtype", "tokens.delete_detailtype",
        "tokens.view_detailtype",
    },
    "accounts/admin/audit_trail.py": {"tokens.view_oauthclient"},
    "accounts/outbox/admin.py": {"accounts.change_user", "accounts.view_user"},
}  # fmt: skip


def rights() -> set[str]:
    """Return every right that somebody can hold or a scope covers, as ``app_label.codename``."""
    held = {
        f"{model._meta.app_label}.{codename}"
        for model in apps.get_models(include_auto_created=True)
        for codename in (
            *(get_permission_codename(act, model._meta) for act in model._meta.default_permissions),
            *(codename for codename, _ in model._meta.permissions),
        )
    }
    return held.union(*SCOPES.values())


def test_a_right_is_named_in_one_place() -> None:
    """A constant has it, beside the rule; everything else reads the constant."""
    known, named = rights(), defaultdict(list)
    any_right = re.compile("|".join(map(re.escape, known)))
    for file in python_files():
        name = str(file.relative_to(ROOT))
        if name.split("/", maxsplit=1)[0] not in {"ironauth", "accounts", "tokens"} or TEST_CODE.search(name):
            continue
        if any_right.search(file.read_text()):
            for _, text in texts_of(file):
                if text in known:
                    named[text].append(name)
    homes = {
        right: [file for file in files if right not in NAMED_AGAIN.get(file, ())] for right, files in named.items()
    }
    gone = {(file, right) for file, listed in NAMED_AGAIN.items() for right in listed if file not in named[right]}
    assert {"accounts.reset_mfa", "accounts.sign_in_as", "accounts.verify_email"} <= homes.keys()
    assert len(homes) >= len(set().union(*SCOPES.values()))
    assert not {right: files for right, files in homes.items() if len(files) != 1}
    assert not gone, "take it off the list"


def test_macs_are_made_in_one_place() -> None:
    """No module of the product calls ``hmac.digest`` or ``hmac.new`` but ``crypto.master_keys``."""
    calls = re.compile(r"\bhmac\.(digest|new|HMAC)\(|^from hmac import", re.MULTILINE)
    made = [
        str(file.relative_to(ROOT))
        for file in python_files()
        if file.relative_to(ROOT).parts[0] in {"ironauth", "accounts", "tokens"} and "tests" not in file.parts
        if calls.search(file.read_text())
    ]
    assert made == ["ironauth/infrastructure/crypto/master_keys.py"]


def test_the_architecture_page_names_what_there_is() -> None:
    """Every module and room that docs/architecture.md and the decision records name exists."""
    texts = [ROOT / "docs/architecture.md", *(ROOT / "docs/decisions").glob("*.md")]
    pattern = re.compile(r"`((?:ironauth|accounts|tokens|perf)(?:\.[a-z]\w*)+)`")
    named = {name for text in texts for name in pattern.findall(text.read_text())}
    places = {name: ROOT.joinpath(*name.split(".")) for name in named}
    missing = [name for name, at in places.items() if not at.is_dir() and not at.with_suffix(".py").is_file()]
    assert not missing


def test_the_architecture_page_names_every_folder() -> None:
    """Every folder of the product that has a module is on docs/architecture.md, and its name stands there in full."""
    page = (ROOT / "docs/architecture.md").read_text()
    folders = {
        file.relative_to(ROOT).parent
        for file in python_files()
        if file.relative_to(ROOT).parts[0] in {"ironauth", "accounts", "tokens"}
        and not TEST_CODE.search(str(file.relative_to(ROOT)))
    }
    names = {".".join(folder.parts) for folder in folders if len(folder.parts) > 1}
    assert {"accounts.users", "tokens.oauth.token", "ironauth.infrastructure.http"} <= names
    assert not {name for name in names if f"`{name}`" not in page}


def test_the_gate_has_one_budget() -> None:
    """The pages and scripts that say how long a merge may take say the same."""
    texts = {name: (ROOT / name).read_text() for name in (".ci/run", ".ci/test", "CONTRIBUTING.md")}
    budgets = {
        name: re.findall(r"(?:Budget: |when the |has )(\d+) minutes(?:\.| of the gate| for it)", text)
        for name, text in texts.items()
    }
    assert budgets == {name: ["25"] for name in texts}


def test_every_decision_record_is_in_the_list() -> None:
    """The first page of docs/decisions links each of the others."""
    records = ROOT / "docs/decisions"
    linked = set(re.findall(r"\]\(([a-z0-9-]+\.md)\)", (records / "README.md").read_text()))
    assert linked == {record.name for record in records.glob("*.md")} - {"README.md"}


#: What reads a clock when it is called without arguments.
CLOCKS = {"time", "now", "unix", "monotonic", "today", "utcnow"}


def run_at_import(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that a module makes when it is imported: not those of functions, but of their decorators."""
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        within: list[ast.AST] = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
    else:
        within = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call):
        yield node
    for inner in within:
        yield from run_at_import(inner)


def test_no_test_reads_the_clock_when_it_is_collected() -> None:
    """It would be compared with the time at which the test runs, which is a quarter of an hour later at times."""
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in python_files()
        if "tests" in path.parts
        for call in run_at_import(ast.parse(path.read_text(encoding="utf-8")))
        if not call.args and (call.func.attr if isinstance(call.func, ast.Attribute) else "") in CLOCKS
    ]
    assert found == []
