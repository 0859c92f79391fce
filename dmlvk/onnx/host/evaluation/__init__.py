"""Computes single nodes on the host.

Three programs do so, in this order: functions of dmlvk's own, whose results are the same bits on every machine; ONNX
Runtime's CPU package, where it is installed; the onnx package's reference evaluator, for those versions of operators
that a test compared with another program. What none of them knows is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import dmlvk.onnx.host.evaluation.arithmetic
import dmlvk.onnx.host.evaluation.movement
import dmlvk.onnx.host.evaluation.quantization
import dmlvk.onnx.host.evaluation.random_numbers
import dmlvk.onnx.host.evaluation.sequences
import dmlvk.onnx.host.evaluation.suppression  # noqa: F401  # importing them registers their functions
from dmlvk.onnx.host.evaluation.call import Call, Check, NotComputed, function_of
from dmlvk.onnx.model.loading import Step

OWN = "dmlvk"  # Functions of dmlvk's own

RUNTIME = "onnxruntime"  # ONNX Runtime

REFERENCE = "onnx"  # The onnx package's reference evaluator


class Computation:
    """A node, computed by functions of dmlvk's own: the same bits on every machine.

    Whoever calls it ignores NumPy's floating-point errors.

    Args:
        check: refuses a shape and a type of a result.
    """

    def __init__(self, step: Step, check: Check) -> None:
        self._function = function_of(step.domain, step.proto.op_type, step.version)
        self._call, self._outputs = Call(step.proto, step.schema, (), check), len(step.proto.output)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """What the node gives; arrays among the results may be views of the inputs.

        Args:
            inputs: its inputs; ``None`` for an absent optional one.

        Raises:
            NotComputed: when there is no function for this version of the operator and these types.
            ValueError: when the node breaks a rule.
            DmlError: when ``check`` refuses a result.
        """
        if self._function is None:
            raise NotComputed("has no function of its own for it")
        made = self._function.compute(self._call.of(inputs))
        results = list(made) if isinstance(made, tuple) else [made]
        if len(results) < self._outputs:
            raise NotComputed(f"gives {len(results)} of {self._outputs} outputs")
        return [np.asarray(made) if isinstance(made, np.generic) else made for made in results[: self._outputs]]


def computed(step: Step, inputs: Sequence[Any], check: Check) -> list[Any]:
    """What a node gives, once, with arguments and errors as of :class:`Computation`."""
    with np.errstate(all="ignore"):
        return Computation(step, check)(inputs)


__all__ = ["OWN", "REFERENCE", "RUNTIME", "Computation", "computed"]
