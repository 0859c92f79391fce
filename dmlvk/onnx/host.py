"""What the host computes: by the ONNX package's own reference evaluator, and never more than fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import InferenceError, infer_node_outputs

from dmlvk.errors import ModelFileError
from dmlvk.onnx.emptiness import of_nothing
from dmlvk.onnx.limits import DEFAULT_LIMITS, Limits, check_claims
from dmlvk.onnx.loading import Step
from dmlvk.onnx.suppression import non_max_suppression
from dmlvk.onnx.values import Array, Known, Tensor, Value

_MOST_KNOWN = 4096
"""Elements of inputs that shape inference looks at."""

RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators whose results differ from run to run."""

_IGNORED: Mapping[str, tuple[str, ...]] = {
    "RNN": ("clip",),
    "GRU": ("activations", "activation_alpha", "activation_beta", "clip"),
    "LSTM": ("activations", "activation_alpha", "activation_beta", "clip", "input_forget"),
}
"""Attributes of recurrent networks that the evaluator reads over."""

HOST_ONLY = {
    **dict.fromkeys(("NonZero", "Unique", "Compress"), "how many elements there are depends on the data"),
    "NonMaxSuppression": "how many boxes are left depends on the data",
    **dict.fromkeys(
        ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer", "LabelEncoder"),
        "texts are the host's",
    ),
    **dict.fromkeys(
        ("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength"),
        "sequences are the host's",
    ),
    **dict.fromkeys(("SplitToSequence", "ConcatFromSequence", "SequenceMap"), "sequences are the host's"),
    **dict.fromkeys(("OptionalHasElement", "OptionalGetElement", "Optional"), "optional values are the host's"),
    **dict.fromkeys(("If", "Loop", "Scan"), "the host decides which graph comes next; the graphs run on the device"),
    "ImageDecoder": "pictures are decoded by the host",
}
"""Operators that no graph on a device can hold, with the reason."""

_LENGTHS = 4
"""The input of recurrent networks that it reads over, too."""

Inferred = tuple[int, tuple[int, ...]]


class NotInferred(Exception):
    """ONNX's rules for shapes say that a node is not valid, or cannot say what it gives."""


def inferred(step: Step, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> list[Inferred | None]:
    """Element type and shape of each output of a node, as far as they follow from its inputs.

    Raises:
        NotInferred: when the node breaks a rule.
    """
    nothing: list[Inferred | None] = [None] * len(step.proto.output)
    if step.schema is None or any(value is not None and _type(value) is None for value in inputs):
        return nothing
    claim = check_claims(step, inputs)
    if claim is not None:
        raise NotInferred(claim)
    types: dict[str, onnx.TypeProto] = {}
    contents: dict[str, onnx.TensorProto] = {}
    for name, value in zip(step.proto.input, inputs, strict=True):
        if value is None:
            continue
        found = _type(value)
        assert found is not None  # asked for above
        types[name] = found
        if isinstance(value, Known) and value.value.size <= _MOST_KNOWN:
            contents[name] = numpy_helper.from_array(np.ascontiguousarray(value.value).reshape(value.value.shape), name)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        outputs = infer_node_outputs(step.schema, step.proto, types, contents, opset_imports=imports)
    except (InferenceError, RuntimeError, ValueError, KeyError, TypeError, onnx.checker.ValidationError) as error:
        raise NotInferred(" ".join(str(error).split())) from error
    return [_shaped(outputs.get(name)) for name in step.proto.output]


def _type(value: Value) -> onnx.TypeProto | None:
    if isinstance(value, Tensor):
        return helper.make_tensor_type_proto(value.element, value.shape)
    if isinstance(value, Known) and isinstance(value.value, np.ndarray):
        try:
            element = helper.np_dtype_to_tensor_dtype(value.value.dtype)
        except (ValueError, KeyError):
            return None
        return helper.make_tensor_type_proto(element, value.value.shape)
    return None


def _shaped(found: onnx.TypeProto | None) -> Inferred | None:
    if found is None or found.WhichOneof("value") != "tensor_type" or not found.tensor_type.HasField("shape"):
        return None
    sizes = []
    for dimension in found.tensor_type.shape.dim:
        if dimension.WhichOneof("value") != "dim_value" or dimension.dim_value < 0:
            return None
        sizes.append(dimension.dim_value)
    return found.tensor_type.elem_type, tuple(sizes)


def ignored(step: Step) -> str | None:
    """What of a node the evaluator would read over, and give wrong results; ``None``: nothing."""
    if step.domain or step.proto.op_type not in _IGNORED:
        return None
    if len(step.proto.input) > _LENGTHS and step.proto.input[_LENGTHS]:
        return "sequence_lens"
    given = {attribute.name for attribute in step.proto.attribute}
    return next((name for name in _IGNORED[step.proto.op_type] if name in given), None)


def evaluate(
    step: Step, values: Mapping[str, Any], opsets: Mapping[str, int], model: str, limits: Limits = DEFAULT_LIMITS
) -> list[Any]:
    """What a node gives.

    Args:
        step: the node.
        values: its inputs and whatever its subgraphs read, by name.
        opsets: versions of the operator sets.
        model: its name, for messages.
        limits: what it may take.

    Raises:
        ModelFileError: naming the node, when it cannot be computed or would take too much.
    """
    unknown = ignored(step)
    if unknown is not None:
        raise ModelFileError(f"{model}: {step.label}: cannot be computed: the host does not know {unknown}")
    quick = _at_once(step, values, model, limits)
    if quick is not None:
        return quick
    try:
        outputs = inferred(step, [Known(values[name]) if name else None for name in step.proto.input], opsets)
    except NotInferred as error:
        raise ModelFileError(f"{model}: {step.label}: {error}") from error
    limits.check(step, values, outputs, model)
    empty = of_nothing(step, [values[name] if name else None for name in step.proto.input], outputs)
    if empty is not None:
        return empty
    return Repeated(step, opsets, model, limits).evaluated(values)


class Repeated:
    """A node that the host computes again and again, each time of values that were looked at before.

    Args:
        step: the node.
        opsets: versions of the operator sets.
        model: its name, for messages.
        limits: what it may take.
    """

    def __init__(self, step: Step, opsets: Mapping[str, int], model: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self._step, self._opsets, self._model, self._limits = step, opsets, model, limits
        self._evaluator: Any = None

    def __call__(self, values: Mapping[str, Any]) -> list[Any]:
        """What the node gives.

        Raises:
            ModelFileError: naming the node, when it cannot be computed.
        """
        quick = _at_once(self._step, values, self._model, self._limits)
        return self.evaluated(values) if quick is None else quick

    def evaluated(self, values: Mapping[str, Any]) -> list[Any]:
        """The same by the ONNX package's evaluator."""
        step = self._step
        feeds = {name: values[name] for name in step.reads}
        try:
            if self._evaluator is None:
                self._evaluator = ReferenceEvaluator(self._proto())
            with np.errstate(all="ignore"):
                found = iter(self._evaluator.run(None, feeds))
        except Exception as error:
            message = " ".join(f"{type(error).__name__}: {error}".split())
            raise ModelFileError(f"{self._model}: {step.label}: cannot be computed: {message[:500]}") from error
        results = [next(found) if name else None for name in step.proto.output]
        return [np.asarray(result) if isinstance(result, np.generic) else result for result in results]

    def _proto(self) -> onnx.ModelProto:
        step, anything = self._step, onnx.TypeProto()
        graph = helper.make_graph(
            [step.proto],
            "node",
            [helper.make_value_info(name, anything) for name in step.reads],
            [helper.make_value_info(name, anything) for name in step.proto.output if name],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid(*item) for item in self._opsets.items()])


def _at_once(step: Step, values: Mapping[str, Any], model: str, limits: Limits) -> list[Any] | None:
    """Results of the commonest small nodes, without an evaluator of their own."""
    proto = step.proto
    if step.domain or len(proto.output) != 1:
        return None
    if proto.op_type == "Constant" and len(proto.attribute) == 1 and proto.attribute[0].name == "value":
        return [numpy_helper.to_array(proto.attribute[0].t)]
    if proto.op_type == "NonMaxSuppression":
        return _suppressed(step, [values[name] if name else None for name in proto.input])
    if proto.op_type == "Range":
        return _range(step, [np.asarray(values[name]) for name in proto.input], model, limits)
    if proto.op_type == "ConstantOfShape":
        shape = np.asarray(values[proto.input[0]])
        if shape.ndim != 1 or shape.dtype != np.int64:
            return None
        value = numpy_helper.to_array(proto.attribute[0].t) if proto.attribute else np.zeros(1, np.float32)
        if value.size != 1:
            return None
        sizes = [int(size) for size in shape]
        limits.check_shape(step, helper.np_dtype_to_tensor_dtype(value.dtype), sizes, model)
        return [np.full(sizes, value.reshape(-1)[0])]
    return None


def _suppressed(step: Step, inputs: Sequence[Any]) -> list[Any] | None:
    """NonMaxSuppression; ``None`` where its inputs are not as they must be, which the evaluator refuses."""
    boxes, scores, *bounds = [None if value is None else np.asarray(value) for value in inputs]
    if boxes is None or scores is None or boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[2] != 4:
        return None
    fits = boxes.shape[:2] == (scores.shape[0], scores.shape[2]) and boxes.dtype == scores.dtype == np.float32
    numbers = [None if bound is None or bound.size != 1 else bound.reshape(-1)[0].item() for bound in bounds]
    most, overlap, least = [*numbers, None, None, None][:3]
    if not fits or any(bound is not None and bound.size != 1 for bound in bounds):
        return None
    centered = any(attribute.name == "center_point_box" and attribute.i for attribute in step.proto.attribute)
    with np.errstate(all="ignore"):
        return [non_max_suppression(boxes, scores, int(most or 0), float(overlap or 0), least, centered=centered)]


def _range(step: Step, numbers: Sequence[Array], model: str, limits: Limits) -> list[Any] | None:
    """start, start + delta and so on, below limit; bounds may be arrays of one element."""
    if any(number.size != 1 or number.dtype.kind not in "fi" for number in numbers):
        return None
    start, limit, delta = (number.reshape(-1)[0] for number in numbers)
    if delta == 0 or not all(np.isfinite(number) for number in (start, limit, delta)):
        raise ModelFileError(f"{model}: {step.label}: cannot go from {start} to {limit} in steps of {delta}")
    count = max(math.ceil((limit.item() - start.item()) / delta.item()), 0)
    limits.check_shape(step, helper.np_dtype_to_tensor_dtype(start.dtype), [count], model)
    return [(start + np.arange(count, dtype=start.dtype) * delta).astype(start.dtype)]


__all__ = ["HOST_ONLY", "RANDOM", "NotInferred", "Repeated", "evaluate", "ignored", "inferred"]
