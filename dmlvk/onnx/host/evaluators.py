"""What the host computes, by whom, and never more than fits."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from dmlvk.errors import DmlError, ModelFileError
from dmlvk.onnx.host.evaluation import OWN, REFERENCE, RUNTIME, Computation, computed, reference, runtime
from dmlvk.onnx.host.evaluation.call import NotComputed, function_of
from dmlvk.onnx.model.expansion import body_of, takes
from dmlvk.onnx.model.inference import INVALID, Inferred, NotInferred, inferred
from dmlvk.onnx.model.limits import DEFAULT_LIMITS, Limits, check_claims
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.emptiness import of_nothing
from dmlvk.onnx.nodes.values import Known
from dmlvk.support import faults
from dmlvk.support.mapped_files import check_unchanged

_NAMES = {OWN: "dmlvk", RUNTIME: "ONNX Runtime", REFERENCE: "the onnx package's evaluator"}

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


def is_random(step: Step) -> bool:
    """Whether a node's results are drawn: a Dropout's are, where the third input may say that it is trained."""
    function = function_of(step.domain, step.proto.op_type, step.version)
    return function is not None and function.draws is not None and len(step.proto.input) >= function.draws


def evaluate(
    step: Step, values: Mapping[str, Any], opsets: Mapping[str, int], model: str, limits: Limits = DEFAULT_LIMITS
) -> tuple[list[Any], str]:
    """What a node gives, and which program computed it.

    Args:
        values: its inputs and whatever its subgraphs read, by name.
        opsets: versions of the operator sets.

    Raises:
        ModelFileError: naming the node, when it cannot be computed or would take too much; naming a file that was
            written to since the model was loaded, and has what is needed.
    """
    check_unchanged(values.values())
    values = {name: np.asarray(each) if isinstance(each, np.ndarray) else each for name, each in values.items()}
    try:
        return _evaluated(step, values, opsets, model, limits)
    except DmlError:
        raise
    except (NotInferred, NotComputed, *INVALID) as error:
        raise _refused(step, f"{type(error).__name__}: {error}", model) from error
    except Exception as error:
        faults.report(error, f"computing {step.label}")
        raise _refused(step, f"{type(error).__name__}: {error}", model) from error


def _evaluated(
    step: Step, values: Mapping[str, Any], opsets: Mapping[str, int], model: str, limits: Limits
) -> tuple[list[Any], str]:
    reasons: list[str] = []
    found = own_results(step, values, model, limits, reasons)
    if found is not None:
        return found, OWN
    inputs = [Known(values[name]) if name else None for name in step.proto.input]
    outputs: list[Inferred | None] = [None] * len(step.proto.output)
    with contextlib.suppress(NotInferred):  # whoever computes it says what is wrong; ONNX Runtime runs more than that
        outputs = inferred(step, inputs, opsets)
        limits.check(step, values, outputs, model)
    empty = of_nothing(step, [values[name] if name else None for name in step.proto.input], outputs)
    if empty is not None:
        return empty, OWN
    reads_narrow = any(isinstance(value, np.ndarray) and value.dtype.name == "bfloat16" for value in values.values())
    elements = [None if output is None else output[0] for output in outputs]
    is_narrow = [element == TensorProto.BFLOAT16 for element in elements] if any(elements) else []
    for program in (REFERENCE, RUNTIME) if reads_narrow else (RUNTIME, REFERENCE):
        try:
            if program == RUNTIME:
                return runtime.computed(step, values, opsets, is_narrow), program
            if not takes(step, inputs):
                raise NotComputed("its operator has no such types")
            return reference.computed(step, values, opsets), program
        except NotComputed as reason:
            reasons.append(f"{_NAMES[program]}: {reason}")
        except ValueError as error:
            if program == REFERENCE or not reference.is_compared(step):
                raise _refused(step, str(error), model) from error
            reasons.append(f"{_NAMES[program]}: {error}")
    body = body_of(step, inputs, opsets)
    if body is None:
        raise _refused(step, "; ".join(reasons)[:800], model)
    there = dict(values)
    programs = []
    for inner in body:
        results, program = _evaluated(inner, {name: there[name] for name in inner.reads}, opsets, model, limits)
        there.update(zip(inner.proto.output, results, strict=True))
        programs.append(program)
    return [there.get(name) for name in step.proto.output], ", ".join(dict.fromkeys(programs))


class Repeated:
    """A node that the host computes again and again, each time of values that were looked at before.

    Whoever calls it ignores NumPy's floating-point errors.

    Args:
        opsets: versions of the operator sets.
    """

    def __init__(self, step: Step, opsets: Mapping[str, int], model: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self._step, self._opsets, self._model, self._limits = step, opsets, model, limits
        self._inputs, self._computation = tuple(step.proto.input), Computation(step, self._check)

    def __call__(self, values: Mapping[str, Any]) -> list[Any]:
        """What the node gives.

        Args:
            values: by name what it reads, and possibly others.

        Raises:
            ModelFileError: naming the node, when it cannot be computed.
        """
        step = self._step
        try:
            return self._computation([values[name] if name else None for name in self._inputs])
        except NotComputed:
            return self._by_others(values)
        except ModelFileError:
            raise
        except INVALID as error:
            raise _refused(step, str(error), self._model) from error
        except Exception as error:  # noqa: BLE001 - told
            faults.report(error, f"computing {step.label}")
            return self._by_others(values)

    def _by_others(self, values: Mapping[str, Any]) -> list[Any]:
        read = {name: values[name] for name in self._step.reads}
        return evaluate(self._step, read, self._opsets, self._model, self._limits)[0]

    def _check(self, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        self._limits.check_shape(self._step, helper.np_dtype_to_tensor_dtype(dtype), shape, self._model)


def own_results(
    step: Step,
    values: Mapping[str, Any],  # its inputs, by name
    model: str,  # its name, for messages
    limits: Limits = DEFAULT_LIMITS,
    reasons: list[str] | None = None,  # where to add why there is none
) -> list[Any] | None:
    """What a node gives, by functions of dmlvk's own; ``None``: there is none for this operator, version and types.

    Raises:
        ModelFileError: naming the node, when it breaks a rule or its result would be too large.
    """

    def check(shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        limits.check_shape(step, helper.np_dtype_to_tensor_dtype(dtype), shape, model)

    limits.check(step, values, [], model)
    claim = check_claims(step, [Known(values[name]) if name else None for name in step.proto.input])
    if claim is not None:
        raise ModelFileError(f"{model}: {step.label}: {claim}")
    try:
        return computed(step, [values[name] if name else None for name in step.proto.input], check)
    except NotComputed as reason:
        if reasons is not None:
            reasons.append(f"{_NAMES[OWN]}: {reason}")
        return None
    except ModelFileError:
        raise
    except INVALID as error:
        raise _refused(step, str(error), model) from error
    except Exception as error:  # noqa: BLE001 - told
        faults.report(error, f"computing {step.label}")
        return None  # others may know it


def _refused(step: Step, reason: str, model: str) -> ModelFileError:
    return ModelFileError(f"{model}: {step.label}: cannot be computed: {reason}")


__all__ = ["HOST_ONLY", "NotInferred", "Repeated", "evaluate", "inferred", "is_random", "own_results"]
