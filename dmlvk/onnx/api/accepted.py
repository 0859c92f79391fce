"""What programs ask of a session for ONNX Runtime's sake, and what changes nothing here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dmlvk.onnx.api.ort_values import OrtValue


class AcceptedNames:
    """A session's methods that choose among providers, tune them, or tell of what only others have."""

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Accepted for ONNX Runtime's sake: the session stays on its device."""

    def enable_fallback(self) -> None:
        """Accepted for ONNX Runtime's sake."""

    def disable_fallback(self) -> None:
        """Accepted for ONNX Runtime's sake; ``strict=True`` refuses models of which the host computes something."""

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Accepted for ONNX Runtime's sake."""

    def get_tuning_results(self) -> list[Any]:
        """None: kernels are chosen by sizes."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        """Accepted for ONNX Runtime's sake."""

    def get_provider_graph_assignment_info(self) -> list[Any]:
        """None: ``partition`` says where nodes are computed."""
        return []

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Accepted for ONNX Runtime's sake: no run is captured."""

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id)
