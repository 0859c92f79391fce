"""Rows of known tables that inputs ask for: a token that is none of the vocabulary is refused before anything runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlvk.errors import InvalidArgumentError
from dmlvk.onnx.joining.pattern import attribute
from dmlvk.onnx.loading import OnnxModel, Step

_AXES = {("", "Gather"): "axis", ("com.microsoft", "GatherBlockQuantized"): "gather_axis"}
"""The nodes that look up rows, by domain and operator, and their attribute that says along which axis these lie."""

_DATA, _INDICES = 0, 1


@dataclasses.dataclass(frozen=True)
class _Lookup:
    """A node that looks up rows of a known table by an input.

    Attributes:
        node: for messages.
        table: the table's name.
        rows: how many it has.
        indices: the input.
    """

    node: str
    table: str
    rows: int
    indices: str

    def check(self, model: str, indices: Any) -> None:
        """Refuses indices beyond the table; those that lie on the device are not looked at."""
        if not isinstance(indices, np.ndarray) or not indices.size:
            return
        least, most = int(indices.min()), int(indices.max())
        if least < -self.rows or most >= self.rows:
            strange = most if most >= self.rows else least
            raise InvalidArgumentError(
                f"{model}: {self.node}: the input {self.indices!r} has the index {strange}, beyond the {self.rows} "
                f"elements of the axis of {self.table!r}"
            )


class IndexChecks:
    """What of a model's inputs can be checked so.

    Args:
        model: the model.
        steps: its nodes.
        constants: values that are known.

    Attributes:
        inputs: those that are looked at.
    """

    def __init__(self, model: OnnxModel, steps: Sequence[Step], constants: Mapping[str, Any]) -> None:
        self._name = model.name
        inputs = {info.name for info in model.inputs}
        self._lookups = tuple(_lookups(steps, constants, inputs))
        self.inputs = frozenset(lookup.indices for lookup in self._lookups)

    def check(self, arrays: Mapping[str, Any]) -> None:
        """Looks at the inputs of a run.

        Raises:
            InvalidArgumentError: when one asks for a row that a table does not have.
        """
        for lookup in self._lookups:
            lookup.check(self._name, arrays.get(lookup.indices))


def _lookups(steps: Sequence[Step], constants: Mapping[str, Any], inputs: set[str]) -> Iterator[_Lookup]:
    for step in steps:
        name = _AXES.get((step.domain, step.proto.op_type))
        if name is None or step.proto.input[_INDICES] not in inputs:
            continue
        table, axis = constants.get(step.proto.input[_DATA]), attribute(step, name, 0)
        if isinstance(table, np.ndarray) and -table.ndim <= axis < table.ndim and (not step.domain or axis == 0):
            yield _Lookup(step.label, step.proto.input[_DATA], table.shape[axis], step.proto.input[_INDICES])


__all__ = ["IndexChecks"]
