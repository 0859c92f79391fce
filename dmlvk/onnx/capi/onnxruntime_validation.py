"""``onnxruntime.capi.onnxruntime_validation``: there is nothing to validate."""

from dmlvk.onnx.capi.build_and_package_info import __version__, package_name


def check_distro_info() -> None:
    """Nothing: every system with a Vulkan driver is right."""


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """Name and version of the package that dmlvk stands in for; no version of CUDA."""
    return package_name, __version__, ""
