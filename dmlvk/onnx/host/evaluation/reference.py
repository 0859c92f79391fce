"""Single nodes by the onnx package's reference evaluator: those versions of operators only that a test compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from dmlvk.onnx.host.evaluation.call import NotComputed
from dmlvk.onnx.model.loading import Step
from dmlvk.support import faults

COMPARED: dict[tuple[str, str], tuple[int, ...]] = {
    ("", "Attention"): (23, 24, 25),
    ("", "BitCast"): (26,),
    ("", "BlackmanWindow"): (17,),
    ("", "Cast"): (19, 21, 23, 24, 25, 28),
    ("", "CastLike"): (25,),
    ("", "CausalConvWithState"): (27,),
    ("", "Celu"): (28,),
    ("", "DeformConv"): (22,),
    ("", "DequantizeLinear"): (19, 21, 23, 25, 28),
    ("", "Det"): (22,),
    ("", "Einsum"): (28,),
    ("", "HammingWindow"): (17,),
    ("", "HannWindow"): (17,),
    ("", "ImageDecoder"): (20,),
    ("", "LinearAttention"): (27,),
    ("", "MelWeightMatrix"): (17,),
    ("", "QuantizeLinear"): (19, 21, 23, 25, 28),
    ("", "RMSNormalization"): (23,),
    ("", "Range"): (27,),
    ("", "SequenceMap"): (17,),
    ("", "StringNormalizer"): (10,),
    ("", "StringSplit"): (20,),
    ("", "Swish"): (24,),
    ("", "TensorScatter"): (24,),
    ("", "TfIdfVectorizer"): (9,),
    ("", "Unique"): (28,),
    ("ai.onnx.ml", "ArrayFeatureExtractor"): (1,),
    ("ai.onnx.ml", "Binarizer"): (1,),
    ("ai.onnx.ml", "LabelEncoder"): (4,),
    ("ai.onnx.ml", "TreeEnsemble"): (5,),
    ("ai.onnx.preview.training", "Adagrad"): (1,),
    ("ai.onnx.preview.training", "Adam"): (1,),
    ("ai.onnx.preview.training", "Momentum"): (1,),
}
"""By domain and operator, the versions in which it was defined anew."""

OF_BFLOAT16: dict[tuple[str, str], tuple[int, ...]] = {
    ("", "Attention"): (23, 24, 25), ("", "Celu"): (28,), ("", "Einsum"): (28,), ("", "Elu"): (22,),
    ("", "MatMul"): (13,), ("", "Softmax"): (13,), ("", "Unique"): (28,),
}  # fmt: skip
"""Those that are computed so where they read BFLOAT16, which ONNX Runtime's CPU package would compute in FLOAT."""


def is_compared(step: Step) -> bool:
    """Whether the evaluator's results for a version of an operator were compared with another program's."""
    return step.version in COMPARED.get((step.domain, step.proto.op_type), ())


def computed(step: Step, values: Mapping[str, Any], opsets: Mapping[str, int]) -> list[Any]:
    """What a node gives.

    Args:
        values: its inputs and whatever its subgraphs read, by name.
        opsets: versions of the operator sets.

    Raises:
        NotComputed: when this version of the operator was not compared.
        ValueError: when the node cannot be computed from these values.
    """
    is_narrow = any(isinstance(value, np.ndarray) and value.dtype.name == "bfloat16" for value in values.values())
    is_known = is_narrow and step.version in OF_BFLOAT16.get((step.domain, step.proto.op_type), ())
    if not is_known and not is_compared(step):
        raise NotComputed(f"its version {step.version} was not compared with another program")
    return evaluated(step, values, opsets)


def evaluated(step: Step, values: Mapping[str, Any], opsets: Mapping[str, int]) -> list[Any]:
    """What the evaluator makes of a node, right or not.

    Raises:
        ValueError: when the node cannot be computed from these values.
    """
    anything = onnx.TypeProto()
    graph = helper.make_graph(
        [step.proto],
        "node",
        [helper.make_value_info(name, anything) for name in step.reads],
        [helper.make_value_info(name, anything) for name in step.proto.output if name],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid(*item) for item in opsets.items()])
    feeds = {name: values[name] for name in step.reads}
    try:
        with np.errstate(all="ignore"):
            found = iter(ReferenceEvaluator(proto).run(None, feeds))
    except Exception as error:  # the evaluator raises whatever NumPy and Python do
        faults.raise_of_handler(error)
        raise ValueError(" ".join(f"{type(error).__name__}: {error}".split())[:500]) from error
    results = [next(found) if name else None for name in step.proto.output]
    return [np.asarray(result) if isinstance(result, np.generic) else result for result in results]
