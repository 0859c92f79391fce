"""What inputs name: a token that is none of the vocabulary, or a beam that is none, is refused before anything runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlvk.errors import InvalidArgumentError
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.joining.pattern import attribute
from dmlvk.onnx.nodes.translation import translation_of

_DATA, _INDICES = 0, 1


@dataclasses.dataclass(frozen=True)
class _Lookup:
    """A node that looks up rows of a known table by an input."""

    node: str  # for messages
    table: str  # the table's name
    rows: int  # how many it has
    indices: str  # the input

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


@dataclasses.dataclass(frozen=True)
class _Beams:
    """A node whose sequences take the keys of the past from each other, as an input says."""

    node: str  # for messages
    beams: str  # the input: batch, beams, places
    past: str  # the input that says how many places count

    def check(self, model: str, arrays: Mapping[str, Any]) -> None:
        """Refuses beams that are none; those that lie on the device are not looked at."""
        beams, past = arrays.get(self.beams), arrays.get(self.past)
        if not isinstance(beams, np.ndarray) or beams.ndim != 3 or not isinstance(past, np.ndarray) or past.size != 1:
            return
        counted = beams[:, :, : max(0, int(past.reshape(-1)[0]))]
        strange = counted[(counted < 0) | (counted >= beams.shape[1])]
        if strange.size:
            raise InvalidArgumentError(
                f"{model}: {self.node}: the input {self.beams!r} names the beam {int(strange[0])}; there are "
                f"{beams.shape[1]}"
            )


class IndexChecks:
    def __init__(self, model: OnnxModel, steps: Sequence[Step], constants: Mapping[str, Any]) -> None:
        self._name = model.name
        inputs = {info.name for info in model.inputs}
        self._lookups = tuple(_lookups(steps, constants, inputs))
        self._beams = tuple(_beams(steps, inputs))
        self.inputs = frozenset(lookup.indices for lookup in self._lookups)  # those of which all elements are looked at

    def check(self, arrays: Mapping[str, Any]) -> None:
        """Looks at the inputs of a run.

        Raises:
            InvalidArgumentError: when one asks for a row that a table does not have, or for a beam that is none.
        """
        for beams in self._beams:
            beams.check(self._name, arrays)
        for lookup in self._lookups:
            lookup.check(self._name, arrays.get(lookup.indices))


def _lookups(steps: Sequence[Step], constants: Mapping[str, Any], inputs: set[str]) -> Iterator[_Lookup]:
    for step in steps:
        translation = translation_of(step.domain, step.proto.op_type, step.version)
        name = "" if translation is None else translation.rows_along
        if not name or step.proto.input[_INDICES] not in inputs:
            continue
        table, axis = constants.get(step.proto.input[_DATA]), attribute(step, name, 0)
        if isinstance(table, np.ndarray) and -table.ndim <= axis < table.ndim and (not step.domain or axis == 0):
            yield _Lookup(step.label, step.proto.input[_DATA], table.shape[axis], step.proto.input[_INDICES])


def _beams(steps: Sequence[Step], inputs: set[str]) -> Iterator[_Beams]:
    for step in steps:
        translation, given = translation_of(step.domain, step.proto.op_type, step.version), step.proto.input
        places = None if translation is None else translation.beams
        if places is not None and len(given) > max(places) and {given[index] for index in places} <= inputs:
            yield _Beams(step.label, given[places[0]], given[places[1]])
