"""A function for every operator, to build graphs with: ``from dmlvk import functions as F``.

    y = F.where(F.isnan(x), 0.0, F.clip(x, min=-1, max=1))

The functions are made from the operators' declarations and named after them: ELEMENT_WISE_CLIP is ``clip``,
ACTIVATION_RELU is ``activation_relu`` and ``relu``; a Python keyword gets an underscore, ``if_``. Where an activation
and an element-wise operator have one short name (``tanh``), it means the element-wise one. Tensors come first, without
``_tensor`` in their names; then the attributes, with DirectMLX's defaults where it has some, and without those that
count others (AxisCount). ``output_data_type``, ``output_strides`` and ``name`` may be given to all, ``output_sizes``
to those whose sizes nothing else decides: see :meth:`dmlvk.Graph.apply`. What has several outputs gives a tuple of them
in DirectML's order; optional ones are there when ``with_indices=True`` and the like ask for them.

NumPy's words are there, too: ``matmul``, ``concatenate``, ``where``, ``sum``, ``transpose`` and others, as
:mod:`dmlvk.graphs.numpy_words` has them. ``max(a, b)`` is the larger of two tensors' elements, ``max(a, axis=0)``
the largest of one's; ``min``, ``mean``, ``argmax`` and ``argmin`` likewise.

Editors and type checkers see the functions in ``functions.pyi``, which set-up and the
build of a wheel make (scripts/docs_tools/function_stubs.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmlvk.graphs.numpy_words import ALIASES, BOTH, WORDS, either
from dmlvk.graphs.operator_functions import function_name, made_function
from dmlvk.operators import OPERATORS
from dmlvk.support.suggestions import suggestion

_functions = {function_name(name): made_function(kind) for name, kind in sorted(OPERATORS.items())}
_functions |= {
    short: function
    for name, function in list(_functions.items())
    if (short := name.removeprefix("activation_")) not in _functions
}
_functions |= {name: _functions[other] for name, other in ALIASES.items()}
_functions |= {name: either(_functions[name], of_one) for name, of_one in BOTH.items()}
_functions |= WORDS

__all__ = sorted(_functions)  # made from the declarations


def __getattr__(name: str) -> Callable[..., Any]:
    try:
        return _functions[name]
    except KeyError:
        hint = suggestion(name, __all__) or "; dir(dmlvk.functions) lists those that there are"
        raise AttributeError(f"dmlvk.functions has no {name!r}{hint}") from None


def __dir__() -> list[str]:
    return [*__all__, "function_name"]
