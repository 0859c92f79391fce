"""Texts, which are Python's."""

from __future__ import annotations

import numpy as np

from dmlvk.onnx.host.evaluation.call import Array, Call, computes


@computes("StringConcat")
def concatenated(call: Call) -> Array:
    """Each text of one array with that of another behind it; NumPy's own texts would be as long as the longest."""
    first, second = (_texts(call.array(index)) for index in (0, 1))
    return np.asarray(np.add(first, second), object)


def _texts(array: Array) -> Array:
    """As an array of Python's texts."""
    made = np.empty(array.shape, object)
    made.reshape(-1)[:] = [text if isinstance(text, str) else str(text) for text in array.reshape(-1)]
    return made
