"""Whether a model treats each item of its batch by itself, so that a batch that is too large can be run in parts.

A value is *of the batch* where its first axis counts items, each computed of the same items of the inputs alone. It
takes one look at each node: at its operator's rule, which its translator names, and at the shapes that its values have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dmlvk.errors import DeviceLimitError, ModelFileError
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.batch_rules import Look, Shape, size_named_by
from dmlvk.onnx.nodes.joining.pattern import JOINED
from dmlvk.onnx.nodes.translation import translation_of
from dmlvk.onnx.plan.execution import DeviceValue
from dmlvk.onnx.plan.states import State

_MOST_KEPT = 256  # Shapes of inputs of which it is kept whether they are divided


def divided_by(
    steps: Iterable[Step],  # the nodes, each behind those that it reads from
    shapes: Callable[[str], Shape | None],  # of every value, for the whole batch
    constants: Mapping[str, Any],
    inputs: Collection[str],  # those that are of the batch
    outputs: Sequence[str],
) -> frozenset[str] | None:
    """Whether the outputs are what they are for parts of the batch, one behind the other.

    Returns:
        The constants that are shapes whose first number is the size of the batch, and that of the part in a part of
        it; ``None``: the outputs are not so.
    """
    batched, sized = set(inputs), set[str]()
    named, read_otherwise = set[str](), set(outputs)
    for step in steps:
        written = [name for name in step.proto.output if name]
        if not batched.intersection(step.reads):
            read_otherwise.update(step.reads)
            if sized.intersection(step.reads):
                sized.update(written)
            continue
        if step.proto.op_type in ("Shape", "Size") and not step.domain:
            sized.update(written)
            continue
        translation = translation_of(step.domain, step.proto.op_type, step.version)
        if step.domain not in ("", JOINED) or translation is None or translation.batch is None:
            return None
        if sized.intersection(step.reads) and (not translation.reads_sizes or step.proto.input[0] in sized):
            return None
        look = Look(step, shapes, constants, batched)
        if not translation.batch(look):
            return None
        batched.update(written)
        names = size_named_by(look, translation.batch)
        named.update(names)
        read_otherwise.update(set(step.reads) - names)
    return frozenset(named) if batched.issuperset(outputs) and named.isdisjoint(read_otherwise) else None


class DividedRuns:
    """Runs of a model: at once, or in halves, and halves of these, where a buffer would be too large for the device."""

    def __init__(self, model: OnnxModel, steps: Sequence[Step], constants: Mapping[str, Any]) -> None:
        self._model = model
        self._steps = steps
        self._constants = constants
        self._found: dict[tuple[object, ...], _Division | None] = {}

    def plan(
        self, arrays: Mapping[str, Any], look: Callable[[Mapping[str, Any]], Callable[[str], Shape | None]]
    ) -> _Division | None:
        """How a run that the device cannot do at once is divided; ``None``: it cannot be."""
        key = _key(arrays)
        if key not in self._found:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            self._found[key] = self._divided(arrays, look)
        return self._found[key]

    def run(
        self,
        arrays: Mapping[str, Any],
        at_once: Callable[[Mapping[str, Any]], State],
        look: Callable[[Mapping[str, Any]], Callable[[str], Shape | None]],
    ) -> State:
        """Runs the model.

        Raises:
            DeviceLimitError: naming value and node, when the device can do neither all of it nor parts of the batch.
        """
        division = self._found.get(_key(arrays)) if self._found else None
        if division is None:
            try:
                return at_once(arrays)
            except DeviceLimitError:
                division = self.plan(arrays, look)
                if division is None:
                    raise
        half = -(-division.items // 2)
        parts: list[list[Any]] = []
        for part in (slice(0, half), slice(half, division.items)):
            given = {
                name: _on_host(value)[part] if name in division.inputs else value for name, value in arrays.items()
            }
            given |= division.shapes_of(part.stop - part.start)
            state = self.run(given, at_once, look)
            parts.append([np.array(state.host_array(name)) for name in division.outputs])  # the next part overwrites it
        for (name, shape), arrays_of_parts in zip(division.outputs.items(), zip(*parts, strict=True), strict=True):
            whole = np.concatenate(arrays_of_parts)
            if whole.shape != shape:
                raise ModelFileError(
                    f"{self._model.name}: the output {name!r} of parts of the batch has the shape {list(whole.shape)}; "
                    f"of all of it {list(shape)}"
                )
            state.values[name] = whole
        return state

    def _divided(
        self, arrays: Mapping[str, Any], look: Callable[[Mapping[str, Any]], Callable[[str], Shape | None]]
    ) -> _Division | None:
        own = {info.name: arrays[info.name] for info in self._model.inputs if info.name in arrays}
        sizes = {name: tuple(value.shape) for name, value in own.items() if hasattr(value, "shape")}
        constants = {**self._constants, **{name: value for name, value in arrays.items() if name not in own}}
        items = next((sizes[info.name][0] for info in self._model.inputs if sizes.get(info.name)), 0)
        if items < 2:
            return None
        shapes = look(arrays)
        inputs = frozenset(name for name, shape in sizes.items() if shape and shape[0] == items)
        outputs = {info.name: shapes(info.name) for info in self._model.outputs}
        named = divided_by(self._steps, shapes, constants, inputs, list(outputs))
        if named is None:
            return None
        known = {name: shape for name, shape in outputs.items() if shape is not None}
        return _Division(items, inputs, known, {name: np.asarray(constants[name]) for name in named})


@dataclasses.dataclass(frozen=True)
class _Division:
    items: int  # of the batch
    inputs: frozenset[str]  # those that are of the batch
    outputs: Mapping[str, Shape]  # their shapes
    shapes: Mapping[str, Any]  # constants that are shapes and name the size of the batch

    def shapes_of(self, items: int) -> dict[str, Any]:
        return {name: np.array([items, *shape.reshape(-1)[1:]], shape.dtype) for name, shape in self.shapes.items()}


def _key(arrays: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple((name, getattr(value, "shape", None)) for name, value in arrays.items())


def _on_host(value: Any) -> Any:
    return value.array() if isinstance(value, DeviceValue) else value


__all__ = ["DividedRuns", "Shape", "divided_by"]
