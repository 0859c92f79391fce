"""``onnxruntime.capi.build_and_package_info``."""

from dmlvk.onnx.api.environment import ONNX_RUNTIME_VERSION

package_name = "onnxruntime-directml"
__version__ = ONNX_RUNTIME_VERSION
