"""Samples of operators that move parameters along their gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.conformance.samples.normalization import special_values

Array = npt.NDArray[Any]

_NAMES = ("input_parameters_tensor", "input_first_moment_tensor", "input_second_moment_tensor", "gradient_tensor")


def _sample(
    types: Types,
    name: str,
    arrays: Sequence[Array],
    step: Array,
    betas: tuple[float, float] = (0.9, 0.999),
    learning_rate: float = 0.001,
    epsilon: float = 1e-8,
) -> Sample:
    inputs = {**dict(zip(_NAMES, arrays, strict=True)), "training_step_tensor": step}
    members = {"learning_rate": learning_rate, "beta1": betas[0], "beta2": betas[1], "epsilon": epsilon}
    return sample(name, "ADAM_OPTIMIZER", types, inputs, **members)


@sampler("ADAM_OPTIMIZER")
def adam_optimizer(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """First and later steps, gradients of all sizes, coefficients at the ends of their range, special values."""
    dtype, of_step = (types[name].numpy_dtype for name in ("input_parameters_tensor", "training_step_tensor"))

    def numbers(deviation: float, *sizes: int) -> Array:
        return (random.normal(0, 1, sizes) * deviation).astype(dtype)

    def step(number: float) -> Array:
        return np.full((1,) * 4, number, of_step)

    sizes = (3, 5, 7, 11)
    parameters, gradient, zeros = numbers(1, *sizes), numbers(0.01, *sizes), np.zeros(sizes, dtype)
    if of_step != np.uint32:
        moments = [numbers(0.01, *sizes), np.abs(numbers(1e-3, *sizes))]
        yield _sample(types, "two steps and a part", [parameters, *moments, gradient], step(2.75))
        return
    yield _sample(types, "the first step", [parameters, zeros, zeros, gradient], step(1))
    if dtype == np.float32:  # FLOAT16 has no such range
        gradient = (numbers(1, *sizes) * np.exp2(random.integers(-60, 30, sizes))).astype(dtype)
        moments = [(numbers(1, *sizes) * np.exp2(random.integers(-60, 20, sizes))).astype(dtype) for _ in range(2)]
        yield _sample(types, "of all sizes", [parameters, moments[0], np.abs(moments[1]), gradient], step(123457))
    special = special_values(dtype)
    count = len(special)
    given = [np.broadcast_to(special.reshape(shape), (count,) * 4) for shape in np.eye(4, dtype=int) * (count - 1) + 1]
    given = [np.ascontiguousarray(each[::2, ::2, :, ::3]) for each in given]
    yield _sample(types, "special values", given, step(5), (0.5, 0.75), 1e30, 0.0)
