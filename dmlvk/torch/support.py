"""Which of Core ATen's operators have no lowering, and why: PyTorch's CPU computes them between parts on the device."""

from __future__ import annotations

_RANDOM = "random numbers are PyTorch's, from its generators"
_DATA = "how many elements there are depends on the data"
_TRANSFORM = "DirectML has no Fourier transform, and devices no complex numbers"

NOT_LOWERED: dict[str, str] = {
    "_fft_c2r.default": _TRANSFORM,
    "_fft_r2c.default": _TRANSFORM,
    "_local_scalar_dense.default": "its result is a number of Python",
    "atan2.out": "it writes into a tensor that is given; AOTAutograd makes atan2.default of it",
    "bernoulli.p": _RANDOM,
    "empty_strided.default": "its contents are undefined, and its strides are all that it has",
    "nonzero.default": _DATA,
    "rand.default": _RANDOM,
    "randn.default": _RANDOM,
    "randperm.default": _RANDOM,
    "resize_.default": "it gives a tensor another shape where it lies; a tensor on the device has it by itself",
    "sym_numel.default": "a size, not a tensor: it is computed with the plan",
    "sym_storage_offset.default": "the device's tensors begin where their memory does",
}
"""By name with overload. Operators that are lowered have limits of their own, which the log names when they are met."""
