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


def computed(step: Step, inputs: Sequence[Any], check: Check) -> list[Any]:
    """What a node gives, by functions of dmlvk's own: the same bits on every machine.

    Arrays among the results may be views of the inputs.

    Args:
        inputs: its inputs; ``None`` for an absent optional one.
        check: refuses a shape and a type of a result.

    Raises:
        NotComputed: when there is no function for this version of the operator and these types.
        ValueError: when the node breaks a rule.
        DmlError: when ``check`` refuses a result.
    """
    function = function_of(step.domain, step.proto.op_type, step.version)
    if function is None:
        raise NotComputed("has no function of its own for it")
    with np.errstate(all="ignore"):
        made = function.compute(Call(step.proto, step.schema, inputs, check))
    results = list(made) if isinstance(made, tuple) else [made]
    if len(results) < len(step.proto.output):
        raise NotComputed(f"gives {len(results)} of {len(step.proto.output)} outputs")
    return [np.asarray(made) if isinstance(made, np.generic) else made for made in results[: len(step.proto.output)]]


__all__ = ["OWN", "REFERENCE", "RUNTIME", "computed"]
