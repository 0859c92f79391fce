"""What NONZERO_COORDINATES must give, by numpy.argwhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.references.registry import reference
from dmlvk.operators.nonzero import NonzeroCoordinates

Array = npt.NDArray[Any]


@reference("NONZERO_COORDINATES")
def nonzero_coordinates(desc: NonzeroCoordinates, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """NaN counts as not zero there, too."""
    found = np.argwhere(inputs["InputTensor"])
    sizes = tuple(desc.output_coordinates_tensor.sizes)
    rows = np.zeros(sizes, np.uint32)
    rows.reshape(-1, sizes[-1])[: len(found)] = found[:, found.shape[1] - sizes[-1] :]
    count = np.full(tuple(desc.output_count_tensor.sizes), len(found), np.uint32)
    return {"OutputCountTensor": count, "OutputCoordinatesTensor": rows}
