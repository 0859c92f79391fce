"""A part of a graph by ONNX Runtime's CPU provider, for runs that the device turns out not to be able to do.

What a part needs of a device may depend on sizes that only a run has: a tensor may be larger than a buffer, say.
ONNX Runtime has handed the part over by then. So nothing ends in an error that the CPU provider alone would compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from dmlvk.errors import DeviceLimitError, ModelFileError, OutOfMemoryError, UnsupportedError
from dmlvk.onnx.model.loading import OnnxModel
from dmlvk.onnx.plan.execution import DeviceValue, Resident

DEVICE_CANNOT = (DeviceLimitError, ModelFileError, OutOfMemoryError, UnsupportedError)
"""What is tried on the host: neither a lost device nor inputs that contradict one another."""

_SMALL = 2**20
"""Bytes of constants that the session gets a copy of; larger ones are given to each run."""


class HostPart:
    """A part, ready to run on the host.

    Args:
        model: the part.
        outputs: the names of its outputs.
    """

    def __init__(self, model: OnnxModel, outputs: Sequence[str]) -> None:
        self._outputs = list(outputs)
        self._given: dict[str, Any] = {}
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        for name, array in model.constants.items():
            if array.nbytes <= _SMALL or array.dtype.kind == "V":
                proto.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
            else:
                element = helper.np_dtype_to_tensor_dtype(array.dtype)
                proto.graph.input.append(helper.make_tensor_value_info(name, element, array.shape))
                self._given[name] = array
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def run(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs, by their names."""
        feed = {
            name: value.array() if isinstance(value, (DeviceValue, Resident)) else value
            for name, value in arrays.items()
        }
        found = self._session.run(self._outputs, {**feed, **self._given})
        return dict(zip(self._outputs, found, strict=True))


__all__ = ["DEVICE_CANNOT", "HostPart"]
