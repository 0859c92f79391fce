"""Whether a device's own conversions from and to FLOAT16, and its products, are right, found by trying."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dmlvk.datatypes import DataType
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.program import KernelStep, Region
from dmlvk.kernels.small_programs import conversion_step
from dmlvk.kernels.target import Target
from dmlvk.kernels.trials import half_products_step
from dmlvk.objects.recording import run_on_arrays
from dmlvk.operators import ElementWiseMultiply
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.runtime.kompute import Engine
    from dmlvk.runtime.vulkan import DeviceInfo

_PATTERNS = 2**16
_ONE, _INFINITY, _CANONICAL_NAN = 0x3C00, 0x7C00, 0x7E00
_FACTORS = (*range(16), -1, -7, 85, 127, 128, 170, 254, 255)
"""Differences of small integers: by them scales of packed weights are multiplied."""

_SIGN, _FLOAT32_SIGN = 0x8000, 0x80000000
_FLOAT32_NANS = (0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF)

_X86 = ("x86_64", "amd64", "i386", "i686")
_MESA_THAT_UNPACKS = 25
"""Mesa 22.3 (Debian 12) gives LLVM an invalid cast for ``unpackHalf2x16`` on Arm; 25.0 (Debian 13) was tried there."""


def compiles_unpacking(info: DeviceInfo, processor: str) -> bool:
    """Whether ``unpackHalf2x16`` may be tried: llvmpipe's compiler ends the process for it on processors but x86.

    Args:
        processor: what ``platform.machine()`` says, on which llvmpipe runs.
    """
    mesa = re.match(r"Mesa (\d+)\.", info.driver_version)
    is_old = mesa is None or int(mesa[1]) < _MESA_THAT_UNPACKS
    return not (info.driver == "llvmpipe" and is_old and processor.lower() not in _X86)


def unpacks_denormals(engine: Engine) -> bool:
    """Whether ``unpackHalf2x16`` keeps denormals: every FLOAT16 times 1 must come back, and NaN as the canonical one.

    Args:
        engine: a device, whose shaders take its own conversion while this runs.

    Raises:
        OutOfMemoryError: when the device has no memory for it.
        DeviceRemovedError: when the device is lost or closed.
    """
    if not compiles_unpacking(engine.info, platform.machine()):
        return False
    patterns = np.arange(_PATTERNS, dtype=np.uint16)
    ones = np.full(_PATTERNS, _ONE, np.uint16)
    tensor = TensorDesc(DataType.FLOAT16, (_PATTERNS,))
    desc = ElementWiseMultiply(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    program = lower(desc, Target.of(engine.info))

    def made(reads: list[Region], writes: list[Region]) -> Sequence[KernelStep]:
        return program.placed(reads, writes, None)

    products = run_on_arrays(engine, made, (patterns, ones), np.uint16, patterns.shape)
    is_nan = (patterns & 0x7FFF) > _INFINITY
    return bool(np.array_equal(products, np.where(is_nan, np.uint16(_CANONICAL_NAN), patterns)))


def packs_to_nearest_even(engine: Engine) -> bool:
    """Whether ``packHalf2x16`` rounds to nearest even: tried on both sides of every border between two results.

    What lies between two numbers that have the same result has it too, as no conversion decreases where numbers grow.

    Args:
        engine: a device, whose shaders take its own conversion while this runs.

    Raises:
        OutOfMemoryError: when the device has no memory for it.
        DeviceRemovedError: when the device is lost or closed.
    """
    numbers, expected = rounding_borders()

    def made(reads: list[Region], writes: list[Region]) -> list[KernelStep]:
        return [conversion_step(len(numbers), *reads, *writes)]

    found = run_on_arrays(engine, made, (numbers,), np.uint16, expected.shape)
    return bool(np.array_equal(found, expected))


def rounding_borders() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint16]]:
    """Bits of FLOAT32, and of the FLOAT16 that is nearest to each: the first and last number of every result, and ties.

    A tie lies in the middle of two neighbours, and goes to the even one.

    Returns:
        the FLOAT16 themselves, what lies in the middle between two of them and next to it on either side, the greatest
        and least numbers, infinity, NaN, and all of that with the other sign.
    """
    halves = np.arange(_INFINITY + 1, dtype=np.uint16)
    values = halves.view(np.float16).astype(np.float32)
    values[-1] = 2.0**16  # infinity takes part in rounding as the number that would follow
    middles = ((values[:-1] + values[1:]) / 2).view(np.uint32)  # exact: 12 bits
    evens = halves[:-1] + (halves[:-1] & 1)
    special = np.array([1, 0x007FFFFF, 0x7F7FFFFF, 0x7F800000, *_FLOAT32_NANS], np.uint32)
    of_special = [0, 0, _INFINITY, _INFINITY, *[_CANONICAL_NAN] * len(_FLOAT32_NANS)]
    numbers = np.concatenate((values.view(np.uint32), middles - 1, middles, middles + 1, special))
    expected = np.concatenate((halves, halves[:-1], evens, halves[1:], np.array(of_special, np.uint16)))
    negative = np.where(expected == _CANONICAL_NAN, expected, expected | np.uint16(_SIGN))
    return np.concatenate((numbers, numbers | np.uint32(_FLOAT32_SIGN))), np.concatenate((expected, negative))


def multiplies_halves(engine: Engine) -> bool:
    """Whether products of FLOAT16 are rounded to nearest even, to denormals too: tried of every number and whole ones.

    Args:
        engine: a device that was opened with Vulkan's ``shaderFloat16``.

    Raises:
        OutOfMemoryError: when the device has no memory for it.
        DeviceRemovedError: when the device is lost or closed.
    """
    patterns = np.arange(_PATTERNS, dtype=np.uint16)
    factors = np.array(_FACTORS, np.float16)
    with np.errstate(all="ignore"):
        expected = factors[:, None] * patterns.view(np.float16)

    def made(reads: list[Region], writes: list[Region]) -> list[KernelStep]:
        return [half_products_step(_PATTERNS // 2, len(factors), *reads, *writes)]

    found = run_on_arrays(engine, made, (patterns, np.repeat(factors, 2)), np.float16, expected.shape)
    is_nan = np.isnan(expected)
    same = found.view(np.uint16) == expected.view(np.uint16)
    return bool(np.all(np.where(is_nan, np.isnan(found), same)))
