"""What the standard (2024.12) has and dmlvk does not, with the reason; and where a function reads from the device."""

from __future__ import annotations

_DECOMPOSITION = "DirectML has no decomposition of matrices, and dmlvk computes with its operators only"
_COMPLEX = "Vulkan has no complex numbers"

UNSUPPORTED: dict[str, str] = {
    "float64": "Vulkan devices need not have float64 arithmetic; the name is there, arrays of it are refused",
    "complex64": f"{_COMPLEX}; the name is there, arrays of it are refused",
    "complex128": f"{_COMPLEX}; the name is there, arrays of it are refused",
    "imag": f"{_COMPLEX}; it is there and refuses every array",
    **{
        f"linalg.{name}": _DECOMPOSITION
        for name in (
            "cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matrix_rank", "pinv", "qr", "slogdet",
            "solve", "svd", "svdvals",
        )
    },
    "fft": f"{_COMPLEX}, which all functions of the extension give or take",
}  # fmt: skip
"""By the standard's names; those of an extension with its name in front."""

READS_THE_DEVICE: dict[str, str] = {
    "nonzero": "the number of results depends on the data",
    "unique_all": "the number of results depends on the data",
    "unique_counts": "the number of results depends on the data",
    "unique_inverse": "the number of results depends on the data",
    "unique_values": "the number of results depends on the data",
    "repeat": "with an array of repetitions the number of results depends on the data",
    "pow": "of integers: as many squarings as the largest exponent has bits",
    "asarray": "elements of NumPy and Python come from the host",
    "from_dlpack": "other libraries hand elements over in main memory",
}
"""Functions that wait for the device, or go through the host, and what for. All others only give it work."""
