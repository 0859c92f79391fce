"""What the plan of a kernel must know of a compiled shader, without reading it.

``scripts/compile_shaders.py`` measures it beside the compiled shaders, and a wheel carries what it found. A function of
which nothing is known yet, or whose shader was changed since, is measured when it is first asked for.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dmlvk.kernels import library
from dmlvk.kernels.access_orders import DEFERS_SLOW_PATH
from dmlvk.spirv.modules import uses_constant
from dmlvk.spirv.volume import called_words

FILE_NAME = "facts.json"
"""The file beside the packed shaders: for the contiguous kernel of each function its key, words and whether it defers.
"""


@dataclass(frozen=True)
class Facts:
    """What the plan knows of an operator's function for some data types, which is the same for all access orders."""

    words: int  # how long it is, as :func:`dmlvk.spirv.volume.called_words` counts
    defers: bool  # whether its contiguous kernel can compute the slow path after the rest

    @classmethod
    def of(cls, spirv: bytes) -> Facts:
        return cls(called_words(spirv), uses_constant(spirv, DEFERS_SLOW_PATH))


@functools.lru_cache(maxsize=4096)
def facts_of(variant_name: str) -> Facts:
    """What is known of the function of an element-wise variant.

    Raises:
        ShaderLibraryError: its contiguous kernel is missing or damaged; or, in a source checkout, cannot be compiled.
    """
    contiguous = f"{variant_name.rpartition('.')[0]}.contiguous"
    key, facts = _known().get(contiguous, ("", None))
    if facts is not None and key == library.key(contiguous):
        return facts
    return Facts.of(library.load(contiguous))


@functools.cache
def _known() -> Mapping[str, tuple[str, Facts]]:
    return read_facts(library.DIRECTORY)


def read_facts(directory: Path) -> dict[str, tuple[str, Facts]]:
    """The keys and the facts of the contiguous kernels that are known; none where there is no such file."""
    try:
        content = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
    except OSError:
        return {}
    return {name: (key, Facts(words, bool(defers))) for name, (key, words, defers) in content.items()}


def facts_text(facts: Iterable[tuple[str, str, Facts]]) -> str:
    """What the file has of names, keys and facts."""
    return json.dumps({name: (key, known.words, int(known.defers)) for name, key, known in facts}, indent=0)
