"""What the site has beyond the files of docs/: the examples, the changes, and a list of all descriptions.

Links that lead out of docs/, as they must for readers of the files, are led to their place on the site.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):\s*(?=<code>)")
_REFERENCE = re.compile(r"^::: dmlvk\.(\w+)$", re.MULTILINE)


def public_names() -> list[str]:
    """Every name of ``dmlvk.__all__``, read without importing the package."""
    return sorted(name for name in _imported(ROOT / "dmlvk" / "__init__.py") if not name.startswith("_"))


def _imported(path: Path) -> set[str]:
    """The names that a module imports; where it imports all of another's, its descriptions, and what that imports."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
            if "*" in names:
                names.remove("*")
                names |= _exported((ROOT / str(node.module).replace(".", "/")).with_suffix(".py"))
    return names


def _exported(path: Path) -> set[str]:
    """The descriptions and enumerations of a family, or of all families."""
    if path.stem == "families":
        return _imported(path)
    classes = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
    return {node.name for node in classes if not node.keywords and _is_public(node)}


def _is_public(node: ast.ClassDef) -> bool:
    states = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
    return any(ast.unparse(name) in ("declaration", "enum.IntEnum") for name in (*states, *node.bases))


def descriptions_page() -> str:
    """A page of the public names that the hand-written one does not have: the operators and their enumerations."""
    page = (ROOT / "docs" / "reference" / "dmlvk.md").read_text(encoding="utf-8")
    rest = [name for name in public_names() if name not in _REFERENCE.findall(page)]
    parts = [f"::: dmlvk.{name}\n    options:\n      filters: ['!^_', '!^declaration$']" for name in rest]
    head = "Each is a frozen class whose members have DirectML's names in Python's spelling."
    meaning = "[What they mean](../operators.md), by operator."
    return "\n\n".join(["# Descriptions of operators", f"{head} {meaning}", *parts]) + "\n"


def on_files(files: Files, config: Any) -> Files:
    """Adds what is not a file of docs/."""
    files.append(File.generated(config, "reference/descriptions.md", content=descriptions_page()))
    files.append(File.generated(config, "changes.md", abs_src_path=str(ROOT / "CHANGELOG.md")))
    for path in sorted((ROOT / "examples").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Leads links that cross the border of docs/: out of it to the examples, into it from them and from the changes."""
    up = "../" * page.file.src_uri.count("/")
    return markdown.replace(f"]({up}../examples/", f"]({up}examples/").replace(f"]({up}docs/", f"]({up}")


def on_page_content(html: str, **_: Any) -> str:
    """Takes away the roles that docstrings have before names, for other tools: ``:meth:`run```."""
    return _ROLE.sub("", html)
