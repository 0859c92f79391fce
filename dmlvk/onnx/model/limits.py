"""How much a model's file may ask for: bounds by nodes, iterations, bytes and work, checked before anything is done.

A file of a hundred bytes can claim a result of any size, or a loop in a loop in a loop. Nothing here depends on the
time that something takes: the same file is refused on every machine, and with the same words.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx.defs import OpSchema

from dmlvk.errors import DmlError, ModelFileError, OutOfMemoryError
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.values import NUMPY_TYPES, Known, Tensor, Value, element_name

MOST_AXES = np.MAXDIMS if hasattr(np, "MAXDIMS") else 64
"""Axes of a value: those of an array of NumPy, 32 or (from version 2 on) 64."""

_TEXT_BYTES = 64  # What a text takes besides its characters

_RANK_FROM_LENGTH: Mapping[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,),
    **dict.fromkeys(("Expand", "Reshape", "Tile", "Unsqueeze", "Squeeze", "Pad", "Col2Im", "CenterCropPad"), (1,)),
    **dict.fromkeys(("Upsample", "MaxUnpool", "AffineGrid"), (1, 2)),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
}
"""Inputs whose number of elements gives a result's number of axes, or is at most twice that."""

_FREE = 16  # Bytes of results for each byte that was given: unpacked weights, for example

_CHUNK_BYTES = 256  # What an element of a sequence takes besides its contents

_MOVED = 2**3  # What reading or writing an element costs, in terms of a product: memory is slower than arithmetic

_OF_A_PAIR = 2**2  # What comparing two boxes costs, in elements that the host computes at once

_SLOW = 2**12
"""What an element costs where the host computes it by steps of Python's, in elements that it computes at once."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a model may ask for; ``SessionOptions`` has these under the same names, behind ``most_``."""

    nodes: int = 2**17  # of a graph, with its functions' bodies in place and graphs inside of nodes
    # of all loops and scans in one run together; where they are inside one another, their product
    iterations: int = 2**15
    result_bytes: int = 2**30  # of one result of the host, and of what a loop or scan gathers
    # of all results that the host keeps of constants, or in one run. Both may be 16 times what the model's
    # initializers and the run's inputs take, where that is more (:meth:`beside`)
    host_bytes: int = 2**32
    # terms of products that one node of the host sums, or as much of other work: an element that is read or written
    # counts for 8, the tap of a window or the sample of a region for 4096
    host_work: int = 2**36

    def beside(self, given_bytes: int) -> Limits:
        """The same for a model, or a run, that was given so many bytes: large ones may have large results."""
        free = _FREE * given_bytes
        return dataclasses.replace(
            self, result_bytes=max(self.result_bytes, free), host_bytes=max(self.host_bytes, free)
        )

    def check_shape(self, step: Step, element: int, shape: Sequence[int], model: str) -> None:
        """Refuses a result that would be too large."""
        width = NUMPY_TYPES[element].itemsize if element in NUMPY_TYPES else _TEXT_BYTES
        if len(shape) > MOST_AXES:
            raise ModelFileError(f"{model}: {step.label}: its result would have {len(shape)} axes; {MOST_AXES} at most")
        if min(shape, default=1) < 0:
            raise ModelFileError(
                f"{model}: {step.label}: its result of {element_name(element)} would have the shape {list(shape)}: "
                "sizes are not below 0"
            )
        if math.prod(shape) * width > self.result_bytes:
            raise ModelFileError(
                f"{model}: {step.label}: its result of {element_name(element)} would have the shape {list(shape)}, "
                f"which is more than {self.result_bytes} bytes (SessionOptions.most_result_bytes)"
            )

    def check(
        self, step: Step, values: Mapping[str, Any], outputs: Sequence[tuple[int, tuple[int, ...]] | None], model: str
    ) -> None:
        """Refuses a node of the host that would take too much.

        Args:
            outputs: element type and shape of each output, as far as they follow from its inputs.
        """
        for output in outputs:
            if output is not None:
                self.check_shape(step, output[0], output[1], model)
        for name, value in values.items():
            if isinstance(value, np.ndarray) and value.nbytes > self.result_bytes:
                raise ModelFileError(
                    f"{model}: {step.label}: reads {name!r} of the shape {list(value.shape)}, which is more than "
                    f"{self.result_bytes} bytes (SessionOptions.most_result_bytes)"
                )
        refusal = _refusal(step, values, self)
        if refusal is not None:
            raise ModelFileError(f"{model}: {step.label}: {refusal}")
        texts = sum(size_of(value) for value in values.values() if isinstance(value, np.ndarray) and value.dtype == "O")
        if texts > self.result_bytes // 2:
            raise ModelFileError(
                f"{model}: {step.label}: reads texts of {texts} bytes, which is more than {self.result_bytes // 2} "
                "(half of SessionOptions.most_result_bytes)"
            )
        inputs = [values[name] if name else None for name in step.proto.input]
        work = _work(step, inputs, [None if output is None else output[1] for output in outputs])
        if work > self.host_work:
            raise ModelFileError(
                f"{model}: {step.label}: would take the host {work} steps; {self.host_work} at most "
                "(SessionOptions.most_host_work)"
            )


DEFAULT_LIMITS = Limits()


class Budget:
    """What is left of a run's iterations and bytes. One for a run, with all graphs inside of nodes."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._done = 0
        self._around = 1

    @contextlib.contextmanager
    def loop(self, trips: int | None) -> Iterator[None]:
        """A loop that runs.

        Args:
            trips: how many iterations it has for certain; ``None``: that shows when they are done.

        Raises:
            ValueError: when these are too many.
        """
        before = self._around
        if trips is not None and (trips * before > self.limits.iterations):
            inside = f", {before} times" if before > 1 else ""
            raise ValueError(f"{trips} iterations{inside}: {self._bound()}")
        self._around *= max(trips or 1, 1)
        try:
            yield
        finally:
            self._around = before

    def iterate(self) -> None:
        """Counts an iteration.

        Raises:
            ValueError: when it is one too many.
        """
        self._done += 1
        if self._done > self.limits.iterations:
            raise ValueError(f"more iterations: {self._bound()}")

    def _bound(self) -> str:
        return f"a run may have {self.limits.iterations} (SessionOptions.most_iterations)"

    def check_gathered(self, size_in_bytes: int) -> None:
        """Refuses what a loop would gather."""
        if size_in_bytes > self.limits.result_bytes:
            raise ValueError(
                f"it gathers {size_in_bytes} bytes; {self.limits.result_bytes} at most "
                "(SessionOptions.most_result_bytes)"
            )

    def kept_by(self, results: Sequence[Any], so_far: int, step: Step, model: str) -> int:
        """The bytes that the host keeps with these results.

        Raises:
            ModelFileError: naming the node, when they are too many.
        """
        total = so_far + sum(size_of(result) for result in results)
        if total > self.limits.host_bytes:
            raise ModelFileError(
                f"{model}: {step.label}: the results of the host take {total} bytes together; "
                f"{self.limits.host_bytes} at most (SessionOptions.most_host_bytes)"
            )
        return total


def size_of(value: Any) -> int:
    """Bytes that a value takes on the host: arrays, texts, and sequences of these."""
    if isinstance(value, np.ndarray):
        if value.dtype != "O":
            return value.nbytes if value.base is None else 0  # a view takes nothing
        return sum(_TEXT_BYTES + (len(item) if isinstance(item, (str, bytes)) else 0) for item in value.reshape(-1))
    if isinstance(value, CountedSequence):
        return value.size_in_bytes
    if isinstance(value, (list, tuple)):
        return sum(size_of(item) for item in value)
    return 0


class CountedSequence(list[Any]):
    """A sequence that knows what its elements take: one that grows in a loop is not counted anew in each iteration."""

    def __init__(self, values: Iterable[Any], size_in_bytes: int) -> None:
        super().__init__(values)
        self.size_in_bytes = size_in_bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return CountedSequence, (list(self), self.size_in_bytes)


def check_claims(step: Step, inputs: Sequence[Value | None]) -> str | None:
    """Why nobody must see a node: what it claims would take shape inference memory of any size, or end ONNX Runtime's
    process. ``None``: they may.
    """
    if step.domain:
        return None
    if step.schema is not None and step.schema.inputs and step.proto.op_type not in ("Loop", "Scan"):
        first, last = len(step.schema.inputs) - 1, step.schema.inputs[-1]
        if "" in step.proto.input[first:] and last.option == OpSchema.FormalParameterOption.Variadic:
            index = first + list(step.proto.input[first:]).index("")
            return f"its input {index} is absent; {last.name!r} are any number, all of which must be there"
    for index in _RANK_FROM_LENGTH.get(step.proto.op_type, ()):
        shape = _shape(inputs[index]) if index < len(inputs) else None
        if shape is not None and len(shape) == 1 and shape[0] > 2 * MOST_AXES:
            name = step.proto.input[index]
            return f"the {shape[0]} elements of {name!r} are for as many axes; a value has {MOST_AXES} at most"
    given = {attribute.name: attribute.i for attribute in step.proto.attribute}
    if step.proto.op_type == "Split" and given.get("num_outputs", 0) > len(step.proto.output):
        return f"num_outputs is {given['num_outputs']}; it has {len(step.proto.output)} outputs"
    if step.proto.op_type == "Scan" and not 1 <= given.get("num_scan_inputs", 1) <= len(step.proto.input):
        return f"num_scan_inputs is {given['num_scan_inputs']}; it has {len(step.proto.input)} inputs"
    return None


def _shape(value: Value | None) -> tuple[int, ...] | None:
    if isinstance(value, Tensor):
        return value.shape
    return value.value.shape if isinstance(value, Known) and isinstance(value.value, np.ndarray) else None


def _refusal(step: Step, values: Mapping[str, Any], limits: Limits) -> str | None:
    """What else is too much or ends ONNX Runtime's process, though no shape tells of it; ``None``: nothing."""
    given = {attribute.name: attribute for attribute in step.proto.attribute}
    inputs = [values[name] if name else None for name in step.proto.input]
    kind = next((end for end in ("Pool", "Window") if step.proto.op_type.endswith(end)), step.proto.op_type)
    return _REFUSALS[kind](inputs, given, limits) if kind in _REFUSALS else None


def _padded_windows(inputs: Sequence[Any], given: Mapping[str, Any], limits: Limits) -> str | None:
    if "kernel_shape" not in given or "pads" not in given:
        return None
    sizes, pads = list(given["kernel_shape"].ints), list(given["pads"].ints)
    steps = list(given["dilations"].ints) if "dilations" in given else [1] * len(sizes)
    windows = [(size - 1) * step + 1 for size, step in zip(sizes, steps, strict=False)]
    if any(pad >= size for pad, size in zip(pads, [*windows, *windows], strict=False)):
        return f"its pads {pads} must be less than its windows {windows}"
    return None


def _parts(inputs: Sequence[Any], given: Mapping[str, Any], limits: Limits) -> str | None:
    count = _text_pieces(inputs, given)
    if count * _CHUNK_BYTES > limits.result_bytes:
        return f"{count} parts take more than {limits.result_bytes} bytes (SessionOptions.most_result_bytes)"
    return None


def _texts(inputs: Sequence[Any], given: Mapping[str, Any], limits: Limits) -> str | None:
    arrays = [np.asarray(value) for value in inputs]
    count = max(array.size for array in arrays) if all(array.size for array in arrays) else 0
    size = sum(size_of(array) * (count // max(array.size, 1)) for array in arrays)
    if size > limits.result_bytes:
        return f"its texts would take {size} bytes; {limits.result_bytes} at most (SessionOptions.most_result_bytes)"
    return None


def _frames(inputs: Sequence[Any], given: Mapping[str, Any], limits: Limits) -> str | None:
    window, length = (inputs[index] if index < len(inputs) else None for index in (2, 3))
    if window is None and length is None:
        return None
    said = np.asarray(window).size if length is None else int(np.max(length, initial=0))
    return None if said > 0 else f"its frames have the length {said}"


def _window(inputs: Sequence[Any], given: Mapping[str, Any], limits: Limits) -> str | None:
    size = int(np.min(inputs[0], initial=0))
    return f"a window has no {size} elements" if size < 0 else None


_REFUSALS: Mapping[str, Callable[[Sequence[Any], Mapping[str, Any], Limits], str | None]] = {
    "Pool": _padded_windows,
    "STFT": _frames,
    "SplitToSequence": _parts,
    "StringConcat": _texts,
    "Window": _window,
}


def _text_pieces(inputs: Sequence[Any], given: Mapping[str, Any]) -> int:
    shape = np.shape(inputs[0])
    axis = given["axis"].i if "axis" in given else 0
    length = shape[axis] if -len(shape) <= axis < len(shape) else 1
    if len(inputs) < 2 or inputs[1] is None:
        return length
    said = np.asarray(inputs[1]).reshape(-1)
    return int(said.size if said.size != 1 else -(-length // max(int(said[0]), 1)))


# What a node of the host costs.


def _work(step: Step, inputs: Sequence[Any], outputs: Sequence[tuple[int, ...] | None]) -> int:
    """Elements that are read and written, and the terms of what is summed for each."""
    shapes = [np.shape(value) if isinstance(value, np.ndarray) else () for value in inputs]
    read = sum(math.prod(shape) for shape in shapes)
    written = sum(math.prod(shape) for shape in outputs if shape is not None)
    if step.proto.op_type == "NonMaxSuppression" and len(shapes) > 1 and len(shapes[1]) == 3:
        return read + _suppressed(shapes[1], inputs[2] if len(inputs) > 2 else None)
    terms = _terms(step, inputs, shapes)
    return (read + written) * _MOVED + (written * terms if terms > 1 else 0)


def _suppressed(scores: tuple[int, ...], most: Any) -> int:
    """Comparisons of NonMaxSuppression: of each box that may be chosen with all others, for each class."""
    chosen = int(np.asarray(most).reshape(-1)[0]) if isinstance(most, np.ndarray) and most.size else 0
    batch, classes, boxes = scores
    return batch * classes * boxes * min(max(chosen, 0), boxes) * _OF_A_PAIR


def _terms(step: Step, inputs: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> int:
    kind = step.proto.op_type
    given = {attribute.name: attribute for attribute in step.proto.attribute}
    if "MatMul" in kind or kind in ("Gemm", "QGemm"):
        return max((shape[-1] for shape in shapes[:1] if shape), default=1)
    if "Conv" in kind:  # the weights are the tensor of most axes behind the first input
        weights = max(shapes[1:], key=len, default=())
        return math.prod(weights[1:]) * _SLOW
    if "kernel_shape" in given:
        window: list[int] = list(given["kernel_shape"].ints)
        return math.prod(max(size, 1) for size in window) * _SLOW
    if kind == "Einsum":
        return _letters(given["equation"].s.decode(errors="replace"), shapes) if "equation" in given else 1
    if kind == "LRN":
        return max(given["size"].i if "size" in given else 1, 1)
    if kind in ("RoiAlign", "MaxRoiPool"):
        return samples_of(given["sampling_ratio"].i if "sampling_ratio" in given else 0, inputs) * _SLOW
    if kind in ("Resize", "Upsample", "GridSample", "DeformConv"):
        return _SLOW
    if kind in ("LSTM", "GRU", "RNN"):
        return sum(shape[-1] for shape in shapes[1:3] if shape) * 4
    if kind == "Det":
        return max((shape[-1] for shape in shapes if shape), default=1)
    return 1


def samples_of(ratio: int, inputs: Sequence[Any]) -> int:
    """Samples for each element that regions become: along both axes ``ratio``, or what the largest region needs."""
    if ratio > 0:
        return ratio * ratio
    regions = inputs[1] if len(inputs) > 1 else None
    if not isinstance(regions, np.ndarray) or regions.ndim != 2 or not regions.size or regions.dtype.kind not in "fiu":
        return 1
    with np.errstate(all="ignore"):
        corners = regions[:, -4:].astype(np.float64)
        extent = np.nan_to_num(np.abs(corners[:, 2:] - corners[:, :2]), nan=0.0, posinf=2.0**62, neginf=2.0**62)
        return int(min(np.prod(np.ceil(extent) + 1, axis=1).max(initial=1.0), 2.0**62))


def _letters(equation: str, shapes: Sequence[tuple[int, ...]]) -> int:
    """The product of the sizes of all axes that an equation sums over: of those behind no arrow."""
    left, _, right = equation.replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for letters, shape in zip(left.split(","), shapes, strict=False):
        sizes.update(zip(letters.replace("...", ""), shape, strict=False))
    summed: list[int] = [size for letter, size in sizes.items() if letter not in right]
    return math.prod(summed)


class MemoryChecked:
    """Main memory, or Python's stack, that does not suffice for a model is one of dmlvk's errors.

    A class, because a generator costs a small run 2 µs.

    Args:
        name: the model's, for the message.

    Raises:
        OutOfMemoryError, ModelFileError: when they do not.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MemoryError) and not isinstance(error, DmlError):
            raise OutOfMemoryError(f"{self._name}: there is not enough main memory: {error}".rstrip(": ")) from error
        if isinstance(error, RecursionError):
            raise ModelFileError(f"{self._name}: its graphs or functions are nested too deeply") from error
