"""Which launches a change touches: those that a commit's program did not make, or whose shaders are other ones now."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.library.compiler import key_of
from dmlvk.kernels.library.sources import SourceError, SourceTree
from dmlvk.kernels.variants import ShaderVariant
from scripts.shader_tools import drawn, launches
from scripts.shader_tools.launches import RealLaunch

ROOT = Path(__file__).resolve().parents[2]

_PRINT_LAUNCHES = """
import json, sys
from dmlvk.kernels.catalog import all_variants
from scripts.shader_tools.launches import TARGETS, real_launches
launches = [launch.key for launch in real_launches(TARGETS[sys.argv[1]], sys.argv[2])]
json.dump([[[each.name, each.source, each.defines] for each in all_variants()], launches], sys.stdout)
"""


class UnknownCommitError(Exception):
    """Git does not know a commit here."""


@dataclass(frozen=True)
class Changes:
    """What differs from a commit."""

    # those whose sources or definitions are other ones; where these cannot be told, whose sources are
    variants: Collection[str]
    # by their keys, the launches that the commit made; ``None`` where it cannot be told
    known: Collection[tuple[Any, ...]] | None
    remark: str = ""  # why not, or an empty string

    def touch(self, launch: RealLaunch) -> bool:
        return launch.variant in self.variants or (self.known is not None and launch.key not in self.known)


def changes_since(commit: str, target: str, names: str = "*") -> Changes:
    """What differs from a commit.

    Descriptions are today's: the commit's program makes launches of the same ones.

    Args:
        commit: any name of it that git knows.
        target: the device for which kernels are chosen, by its name in ``TARGETS``.
        names: a pattern of operators' names.

    Raises:
        UnknownCommitError: there is no such commit here.
    """
    done = subprocess.run(
        ["git", "archive", commit, "dmlvk", "scripts", "shaders"], cwd=ROOT, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise UnknownCommitError(f"{commit}: {done.stderr.decode(errors='replace').strip()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["tar", "-x", "-C", name], input=done.stdout, check=True)
        before, now = SourceTree(folder / "shaders"), SourceTree(ROOT / "shaders")
        changed = {each.name for each in all_variants() if _key(before, each) != _key(now, each)}
        for module in (drawn, launches):
            shutil.copy(str(module.__file__), folder / "scripts" / "shader_tools")
        made = subprocess.run(
            [sys.executable, "-c", _PRINT_LAUNCHES, target, names],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": name},
            capture_output=True,
            text=True,
            check=False,
        )
    if made.returncode != 0:
        return Changes(changed, None, made.stderr.strip().rpartition("\n")[2])
    defined, known = json.loads(made.stdout)
    same = {(name, source, tuple(map(tuple, defines))) for name, source, defines in defined}
    changed |= {each.name for each in all_variants() if (each.name, each.source, each.defines) not in same}
    return Changes(changed, {(variant, tuple(constants), *others) for variant, constants, *others in known})


def _key(tree: SourceTree, variant: ShaderVariant) -> str | None:
    """What follows from sources, by today's definitions."""
    try:
        return key_of(tree, "", variant)
    except SourceError:
        return None  # a file that was not there
