"""What a session says of its model, and of its last run."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
import onnx

from dmlvk.device import Device
from dmlvk.onnx.api.arguments import ModelMetadata, NodeArg, node_arg, output_args
from dmlvk.onnx.api.described import described_outputs
from dmlvk.onnx.api.feeds import check_name, checked_inputs, checked_outputs
from dmlvk.onnx.api.options import HOST_PROVIDER, PROVIDER, SessionOptions
from dmlvk.onnx.api.overriding import Overriding
from dmlvk.onnx.model.loading import OnnxModel
from dmlvk.onnx.plan.engine import DeviceModel
from dmlvk.onnx.plan.execution import Usage
from dmlvk.onnx.plan.round_plans import Placement


class Facts:
    """The part of a session that says what it is of."""

    device: Device
    _model: OnnxModel
    _options: SessionOptions
    _overriding: Overriding[Any]
    _program: DeviceModel

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that must be given."""
        return [node_arg(info) for info in self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in order; what the model does not say of them follows from its inputs, as far as it does."""
        return output_args(self._model, self._outputs)

    @functools.cached_property
    def _outputs(self) -> Sequence[onnx.ValueInfoProto]:
        return described_outputs(self._model, self._overriding.names)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The initializers that the model lists as inputs, too: constants, until a run gives them."""
        return [node_arg(info) for info in self._model.overridable if info.name in self._overriding.names]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model's file says of itself."""
        proto = self._model.proto
        return ModelMetadata(
            {entry.key: entry.value for entry in proto.metadata_props},
            proto.doc_string,
            proto.domain,
            proto.graph.doc_string,
            proto.graph.name,
            proto.producer_name,
            proto.model_version,
        )

    def get_providers(self) -> list[str]:
        """What computes: dmlvk, under the name of the provider that it stands in for, and the host."""
        return [PROVIDER, HOST_PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """What computes, with the device's index."""
        return {PROVIDER: {"device_id": str(self.device.info.index)}, HOST_PROVIDER: {}}

    def get_session_options(self) -> SessionOptions:
        """What the session was made with."""
        return self._options

    @property
    def partition(self) -> list[Placement]:
        """Where each node was computed in the last run, and why; the nodes of the model's file in order.

        Empty before the first run of a model whose input shapes are not all given.
        """
        placements = self._program.placements
        return [placements[index] for index in sorted(placements)]

    @property
    def usage(self) -> Usage:
        """Launches, waits and memory of the last run, without what graphs inside of nodes (If, Loop, Scan) took."""
        return self._program.usage

    def _checked_outputs(self, output_names: Sequence[str] | None) -> list[str]:
        return checked_outputs(self._model, output_names)

    def _checked_inputs(self, feed: Mapping[str, npt.ArrayLike]) -> dict[str, Any]:
        return checked_inputs(self._model, feed, self.device)

    def check_output(self, name: object) -> None:
        """Raises where the model has no such output.

        Raises:
            InvalidArgumentError: when it has not.
        """
        check_name(self._model, name, "output", self._model.outputs)

    def check_input(self, name: object) -> None:
        """Raises where the model has no such input.

        Raises:
            InvalidArgumentError: when it has not.
        """
        if name not in self._overriding.names:
            check_name(self._model, name, "input", self._model.inputs)
