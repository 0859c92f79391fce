"""What docs/architecture.md says of the package's folders holds, and no module of the repository imports in circles."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dmlvk"
MEASURING = ("dmlvk.conformance", "dmlvk.bench")
"""Only the command, and these themselves, import them."""

AT_THE_TOP = {
    *(".ci", ".github", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "LICENSE", "README.md"),
    *("SECURITY.md", "pyproject.toml"),
    *("dmlvk", "docs", "examples", "scripts", "shaders", "tests"),
}
"""What git keeps at the top."""


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {_name(path): path for room in ("dmlvk", "scripts", "tests") for path in sorted((ROOT / room).rglob("*.py"))}


def _imports(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Modules of the repository that code imports, those inside functions included, and those of types left out."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        yield from itertools.chain.from_iterable(map(_imports, node.orelse))
        return
    if isinstance(node, ast.Import):
        yield from ((alias.name, node.lineno) for alias in node.names if alias.name in MODULES)
    if isinstance(node, ast.ImportFrom) and node.module in MODULES:
        for alias in node.names:
            member = f"{node.module}.{alias.name}"
            yield (member if member in MODULES else str(node.module)), node.lineno
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)


@functools.cache
def _imports_of(name: str) -> dict[str, int]:
    """Each module that one imports, with the line."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    return {module: line for module, line in _imports(tree) if module != name}


def test_no_module_imports_itself_by_way_of_others() -> None:
    done: set[str] = set()
    way: list[str] = []

    def follow(name: str) -> None:
        if name in way:
            circle = [*way[way.index(name) :], name]
            steps = (f"{a}:{_imports_of(a)[b]} imports {b}" for a, b in itertools.pairwise(circle))
            raise AssertionError("modules import each other in a circle: " + ", ".join(steps))
        if name not in done:
            way.append(name)
            for other in _imports_of(name):
                follow(other)
            way.pop()
            done.add(name)

    for name in MODULES:
        follow(name)


def test_only_the_command_imports_what_measures() -> None:
    wrong = [
        f"{name}:{line} imports {module}"
        for name in MODULES
        for module, line in _imports_of(name).items()
        if module.startswith(MEASURING) and not name.startswith((*MEASURING, "dmlvk.cli", "scripts", "tests"))
    ]
    assert not wrong


def test_nothing_but_the_project_lies_at_the_top() -> None:
    """Commands that are tried leave files behind, which are easily committed."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {name.split("/")[0] for name in listed.split("\0") if name}
    assert found <= AT_THE_TOP, f"{sorted(found - AT_THE_TOP)} at the top of what git keeps"


def test_the_page_on_architecture_names_every_folder_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = {f"dmlvk/{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    families = {f"{path.parent.name}/" for path in (PACKAGE / "kernels").glob("*/__init__.py")}
    named = set(re.findall(r"`(dmlvk/\w+/)`", page))
    assert named == folders
    assert families <= set(re.findall(r"`(\w+/)`", page))


def test_the_page_names_the_folders_in_these_and_each_script() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    inner = {path.parent for path in PACKAGE.glob("*/*/__init__.py") if path.parents[1].name != "kernels"}
    inner |= {path.parent for path in (ROOT / "scripts").glob("*/*.*") if path.suffix in (".py", ".cpp")}
    wanted = {f"{path.relative_to(ROOT).as_posix()}/" for path in inner}
    wanted |= {path.name for path in (ROOT / "scripts").glob("*.*") if path.name != "__init__.py"}
    named = set(re.findall(r"`((?:scripts|dmlvk/\w+)/\w+/|\w+\.(?:py|sh))`", page))
    known = {path.name for path in PACKAGE.rglob("*.py")}
    assert wanted - named == set(), "which docs/architecture.md does not name"
    gone = {name for name in named - wanted - known if not (ROOT / name).is_dir()}
    assert gone == set(), "which docs/architecture.md names and nobody has"


def test_patterns_lie_in_folders_of_the_same_names_as_kernels() -> None:
    kernels = {path.parent.name for path in (PACKAGE / "kernels").glob("*/__init__.py")} - {"library"}
    assert {path.name for path in (ROOT / "shaders" / "patterns").iterdir() if path.is_dir()} == kernels
