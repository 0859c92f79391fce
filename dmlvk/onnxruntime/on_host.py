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


class HostRefusedError(Exception):
    """ONNX Runtime's CPU provider cannot compute a part either; the message has its words."""


class HostPart:
    """A part, ready to run on the host.

    Args:
        model: the part.
        outputs: the names of its outputs.

    Raises:
        HostRefusedError: when ONNX Runtime makes no session of it.
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
        contents = proto.SerializeToString()
        try:
            self._session = onnxruntime.InferenceSession(contents, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no base of their own
            raise HostRefusedError(str(error)) from error

    def run(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs, by their names.

        Raises:
            HostRefusedError: when ONNX Runtime does not compute them.
        """
        feed = {
            name: value.array() if isinstance(value, (DeviceValue, Resident)) else value
            for name, value in arrays.items()
        }
        try:
            found = self._session.run(self._outputs, {**feed, **self._given})
        except Exception as error:  # likewise
            raise HostRefusedError(str(error)) from error
        return dict(zip(self._outputs, found, strict=True))


__all__ = ["DEVICE_CANNOT", "HostPart", "HostRefusedError"]
