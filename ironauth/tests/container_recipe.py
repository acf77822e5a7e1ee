"""Reads ``deploy/Dockerfile`` and its ignore file, and works out which files of the repository reach the image."""

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from posixpath import join, normpath

FLAG = re.compile(r"--([a-z-]+)=(\S+)\s+")
STAGE = re.compile(r"(?P<image>\S+)(?:\s+AS\s+(?P<name>\S+))?", re.IGNORECASE)


@dataclass
class Stage:
    """One ``FROM``: its ``(instruction, flags, rest)`` lines, and the context's files by their place in it."""

    image: str
    name: str
    lines: list[tuple[str, dict[str, str], str]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    def last(self, instruction: str) -> str:
        """Return what the last such instruction says, empty without one."""
        return next((rest for name, _, rest in reversed(self.lines) if name == instruction), "")

    def all(self, instruction: str) -> list[str]:
        """Return what each such instruction says."""
        return [rest for name, _, rest in self.lines if name == instruction]


def stages(dockerfile: str) -> list[Stage]:
    """Parse a Dockerfile; comment lines are dropped first, inside continued lines too.

    A stage's image is the default of the build's argument which it names, where it names one.
    """
    text = "\n".join(line for line in dockerfile.splitlines() if not line.lstrip().startswith("#"))
    found: list[Stage] = []
    bases: dict[str, str] = {}
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if not line.strip():
            continue
        instruction, _, rest = line.strip().partition(" ")
        flags = {}
        rest = rest.strip()
        while match := FLAG.match(rest):
            flags[match[1]] = match[2]
            rest = rest[match.end() :]
        if instruction == "FROM":
            match = STAGE.fullmatch(rest)
            assert match is not None, rest
            image = match["image"]
            found.append(Stage(bases[image[1:]] if image.startswith("$") else image, match["name"] or ""))
        elif not found:
            assert instruction == "ARG", f"{line} before the first FROM"
            name, _, default = rest.partition("=")
            bases[name] = default
        else:
            found[-1].lines.append((instruction, flags, rest))
    return found


class IgnoreFile:
    """The patterns of a ``.dockerignore``: Go's filepath.Match and ``**``; the last that matches a path decides."""

    def __init__(self, text: str) -> None:
        lines = [line.strip() for line in text.splitlines() if not line.startswith("#")]
        self._rules = [
            (not line.startswith("!"), _expression(line.removeprefix("!").strip("/"))) for line in lines if line
        ]

    def ignores(self, path: str) -> bool:
        """Tell whether the build cannot see ``path``; a pattern that matches a folder matches all below it."""
        above = [path, *(str(parent) for parent in PurePosixPath(path).parents)][:-1]
        ignored = False
        for excludes, expression in self._rules:
            if any(expression.fullmatch(each) for each in above):
                ignored = excludes
        return ignored


def _expression(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern; only what a class in brackets holds is taken as it is."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]*\])", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(known.get(part, part if part.startswith("[") else re.escape(part)) for part in parts))


def follow_copies(found: list[Stage], context: list[str]) -> None:
    """Fill every stage's ``files`` by its ``COPY`` lines: from the ``context``, or from an earlier stage."""
    for stage in found:
        folder = "/"
        for instruction, flags, rest in stage.lines:
            if instruction == "WORKDIR":
                folder = join(folder, rest)
            assert instruction != "ADD", "COPY is followed here, and fetches nothing"
            if instruction != "COPY":
                continue
            *sources, target = rest.split()
            earlier = next((each for each in found if each.name and each.name == flags.get("from")), None)
            visible = earlier.files if earlier else {f"/{name}": name for name in context}
            for source in sources:
                stage.files.update(_copied(visible, normpath(join("/", source)), join(folder, target)))


def _copied(visible: dict[str, str], source: str, target: str) -> dict[str, str]:
    """Return what one source brings: a folder its contents, a file itself, into a target that ends with a slash."""
    if source in visible:
        place = join(target, PurePosixPath(source).name) if target.endswith(("/", "/.")) else target
        return {normpath(place): visible[source]}
    folder = f"{source.rstrip('/')}/"
    return {
        normpath(join(target, place.removeprefix(folder))): name
        for place, name in visible.items()
        if place.startswith(folder)
    }
