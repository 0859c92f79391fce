"""Which kind of model something is that blocks are to be given to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmlvk.dask.models import BlockModel, FunctionModel, TensorModel
from dmlvk.errors import InvalidArgumentError
from dmlvk.objects.compilation import CompiledOperator
from dmlvk.operators import OperatorDesc


def as_block_model(model: Any, outputs: Sequence[str] | None = None) -> BlockModel:
    """A model for blocks.

    Args:
        model: a description, a compiled operator or graph, an ONNX session, or a function of expressions.
        outputs: the names of those that are wanted; ``None``: all.

    Raises:
        InvalidArgumentError: when it is none of them, or has no such output.
    """
    if outputs is not None and (isinstance(outputs, str) or not isinstance(outputs, Sequence)):
        raise InvalidArgumentError(f"dmlvk.dask: outputs must be a sequence of names; got {outputs!r}")
    if isinstance(model, BlockModel):
        return model
    if isinstance(model, (OperatorDesc, CompiledOperator)):
        return TensorModel(model, outputs)
    if type(model).__name__ == "InferenceSession" and type(model).__module__.startswith("dmlvk.onnx"):
        from dmlvk.dask.sessions import SessionModel  # which needs the package onnx

        return SessionModel(model, outputs)
    if callable(model) and not isinstance(model, type):
        return FunctionModel(model, outputs)
    raise InvalidArgumentError(
        "dmlvk.dask: a model is an operator's description, a compiled operator or graph, an ONNX session, or a "
        f"function of expressions; got {model!r}"
    )
