"""What the plan of a kernel must know of a compiled shader, without reading it: ``facts.json``.

``scripts/make_facts.py`` writes the file from the compiled shaders, and a test holds the two together. So the same
description is lowered to the same kernel whatever compiler made the shaders, and nothing is compiled to be measured.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dmlvk.kernels import library
from dmlvk.kernels.access_orders import DEFERS_SLOW_PATH
from dmlvk.spirv.modules import uses_constant
from dmlvk.spirv.volume import called_words

FILE = Path(__file__).parent / "facts.json"


@dataclass(frozen=True)
class Facts:
    """What the plan knows of an operator's function for some data types, which is the same for all access orders.

    Attributes:
        words: how long it is, as :func:`dmlvk.spirv.volume.called_words` counts.
        defers: whether its contiguous kernel can compute the slow path after the rest.
    """

    words: int
    defers: bool


def facts_of(variant_name: str) -> Facts:
    """What is known of the function of an element-wise variant.

    One that the file does not have yet, since its operator is new, is measured in the compiled shader.
    """
    function = function_name(variant_name)
    return _stored().get(function) or measured(f"{function}.contiguous")


def function_name(variant_name: str) -> str:
    """A variant's name without its access order."""
    return variant_name.rpartition(".")[0]


@functools.lru_cache(maxsize=4096)
def measured(variant_name: str) -> Facts:
    """The facts of a contiguous kernel, from its compiled shader.

    Raises:
        ShaderLibraryError: it is missing or damaged; or, in a source checkout, cannot be compiled.
    """
    module = library.load(variant_name)
    return Facts(called_words(module), uses_constant(module, DEFERS_SLOW_PATH))


@functools.cache
def _stored() -> Mapping[str, Facts]:
    content = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: Facts(words, bool(defers)) for name, (words, defers) in content.items()}
