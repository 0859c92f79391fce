"""LOCAL_RESPONSE_NORMALIZATION across up to five channels, whose Betas of 1/4, 1/2 and 3/4 take no general power."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench

Array = npt.NDArray[Any]

QUARTERS = (0.25, 0.5, 0.75)
SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


def _run(
    device: dml.Device,
    x: Array,
    *,
    local_size: int,
    beta: float,
    alpha: float,
    bias: float,
    strides: tuple[int, ...] | None = None,
) -> Array:
    data_type = dml.FLOAT16 if x.dtype == np.float16 else dml.FLOAT32
    packed = dml.TensorDesc(data_type, x.shape)
    source = packed if strides is None else dml.TensorDesc(data_type, x.shape, strides=strides)
    desc = dml.LocalResponseNormalization(
        input_tensor=source,
        output_tensor=packed,
        cross_channel=True,
        local_size=local_size,
        alpha=alpha,
        beta=beta,
        bias=bias,
    )
    return device.run(desc, {"InputTensor": x})["OutputTensor"]


def _exact(x: Array, *, local_size: int, beta: float, alpha: float, bias: float) -> Array:
    """The results in extended precision, whose errors are 2^-60 of them."""
    wide = x.astype(np.longdouble)
    channels = x.shape[1]
    before, behind = (local_size - 1) // 2, local_size // 2
    sums = [(wide[:, max(0, at - before) : at + behind + 1] ** 2).sum(1) for at in range(channels)]
    factor = np.longdouble(np.float32(alpha) / np.float32(local_size))
    base = np.longdouble(np.float32(bias)) + factor * np.stack(sums, 1)
    return np.asarray(wide / base ** np.longdouble(beta))


def _errors(result: Array, exact: Array) -> Array:
    """In units of float32's last place."""
    ulp = np.spacing(np.maximum(np.abs(exact).astype(np.float32), SMALLEST_NORMAL)).astype(np.longdouble)
    return np.asarray(np.abs(result.astype(np.longdouble) - exact) / ulp)


@pytest.mark.parametrize("beta", QUARTERS)
@pytest.mark.parametrize("local_size", [1, 2, 3, 4, 5])
def test_results_are_within_the_promise(benches: list[Workbench], local_size: int, beta: float) -> None:
    """Bases near Bias, and such to which it adds nothing; images with and without vectors have the same bits."""
    random = np.random.default_rng(local_size)
    shape = (1, 11, 8, 16)
    for scale, alpha, bias in (
        (1.0, 1e-4, 1.0),
        (1.0, 1.0, 1e-3),
        (1e6, 1.0, 1e-6),
        (1e-3, 1.0, 1e-5),
        (1e4, 3e-30, 2.0**-30),
    ):
        x = (random.standard_normal(shape) * scale * np.exp2(random.uniform(-4, 4, shape))).astype(np.float32)
        members: dict[str, Any] = {"local_size": local_size, "beta": beta, "alpha": alpha, "bias": bias}
        exact = _exact(x, **members)
        for bench in benches:
            result = _run(bench.device, x, **members)
            assert _errors(result, exact).max() <= 3 + 4 * beta
            odd = _run(bench.device, np.ascontiguousarray(x[..., :15]), **members)
            assert odd.tobytes() == np.ascontiguousarray(result[..., :15]).tobytes()


@pytest.mark.parametrize("beta", QUARTERS)
def test_a_quotient_is_rounded_once(benches: list[Workbench], beta: float) -> None:
    """With a factor of 0 the base is Bias, which is exact: nothing but the quotient is rounded."""
    random = np.random.default_rng(7)
    biases = [*np.exp2(random.uniform(-30, 30, 24)), 2.0**-30, 2.0**30, 1.0, np.nextafter(np.float32(4), np.float32(0))]
    for bias in np.array(biases, np.float32):
        x = (random.choice([-1.0, 1.0], (1, 1, 32, 64)) * np.exp2(random.uniform(-38, 60, (1, 1, 32, 64)))).astype(
            np.float32
        )
        members: dict[str, Any] = {"local_size": 1, "beta": beta, "alpha": 0.0, "bias": float(bias)}
        exact = _exact(x, **members)
        for bench in benches:
            assert _errors(_run(bench.device, x, **members), exact).max() <= 0.5 + 2.0**-4


@pytest.mark.parametrize("beta", QUARTERS)
def test_significands_of_bases_all_over(benches: list[Workbench], beta: float) -> None:
    """Of two elements one makes the base, in which every rounding is known; the other one is divided."""
    random = np.random.default_rng(11)
    shape = (1, 2, 64, 256)
    x = np.empty(shape, np.float32)
    x[0, 0] = random.choice([-1.0, 1.0], shape[2:]) * np.exp2(random.uniform(-12, -3, shape[2:]))
    x[0, 1] = np.exp2(random.uniform(-14, 29, shape[2:]))
    factor, bias = np.float32(2.0**-8), np.float32(2.0**-28)
    base = bias + factor * (x[0, 0] * x[0, 0] + x[0, 1] * x[0, 1])
    exact = x[0, 0].astype(np.longdouble) / base.astype(np.longdouble) ** np.longdouble(beta)
    for bench in benches:
        result = _run(bench.device, x, local_size=2, beta=beta, alpha=float(2 * factor), bias=float(bias))
        assert _errors(result[0, 0], exact).max() <= 0.5 + 2.0**-4


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
def test_any_layout_gives_the_same_bits(benches: list[Workbench], data_type: type) -> None:
    """Rare elements among ordinary ones: one kernel has vectors, the other one single elements."""
    random = np.random.default_rng(3)
    shape = (2, 19, 4, 6)
    x: Array = random.standard_normal(shape).astype(data_type)
    with np.errstate(over="ignore"):
        unusual: Array = np.array(
            [0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e-30, 2.0**-41, 2.0**-24, 1e30, -3e38, 2e19]
        ).astype(data_type)
    needs_slow_path = random.random(shape) < 0.2
    x[needs_slow_path] = random.choice(unusual, needs_slow_path.sum())
    for beta, local_size, (alpha, bias) in itertools.product(
        QUARTERS, (2, 5), ((1e-4, 1.0), (1.0, 2.0**-20), (1e-37, 1.0))
    ):
        members: dict[str, Any] = {"local_size": local_size, "beta": beta, "alpha": alpha, "bias": bias}
        results = {_run(bench.device, x, **members).tobytes() for bench in benches}
        for bench in benches:
            results.add(_run(bench.device, x, **members, strides=(19 * 24, 1, 6 * 19, 19)).tobytes())
        assert len(results) == 1


@pytest.mark.parametrize("local_size", [1, 2, 4, 5])
def test_what_gpus_execute_gives_the_same_bits(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, local_size: int
) -> None:
    """Written out for eight channels instead of a loop, with elements of the slow path, for more channels and for
    few."""
    random = np.random.default_rng(13)
    inputs = [random.standard_normal((2, channels, 2, 6)).astype(np.float32) for channels in (19, 8, 3, 1)]
    for x in inputs:
        x[random.random(x.shape) < 0.1] = np.inf
        x[random.random(x.shape) < 0.1] = 1e-30
    members: dict[str, Any] = {"local_size": local_size, "beta": 0.75, "alpha": 1.0, "bias": 2.0}

    def results() -> set[bytes]:
        found = set()
        for bench in benches:
            with dml.Device(bench.device.info.index) as device:
                found.add(b"".join(_run(device, x, **members).tobytes() for x in inputs))
        return found

    expected = results()
    monkeypatch.setattr("dmlvk.runtime.shader_forms.on_processor", lambda module: module)
    assert results() == expected
    assert len(expected) == 1


@pytest.mark.parametrize("beta", QUARTERS)
def test_rare_elements(benches: list[Workbench], beta: float) -> None:
    """Infinite and overflowing sums divide to zero, infinities to NaN; denormals are zeros of their sign."""
    rows = {
        (1.0, np.inf, -2.0): (0.0, np.nan, -0.0),
        (1.0, np.nan, -2.0): (np.nan, np.nan, np.nan),
        (1.0, 3e38, -2.0): (0.0, 0.0, -0.0),
        (1e-40, 0.0, -1e-40): (0.0, 0.0, -0.0),
        (-0.0, 1e-30, 0.0): (-0.0, 1e-30, 0.0),
    }
    x = np.repeat(np.array(list(rows), np.float32).reshape(-1, 3, 1, 1), 4, axis=3)
    expected = np.repeat(np.array(list(rows.values()), np.float32).reshape(-1, 3, 1, 1), 4, axis=3)
    for bench in benches:
        result = _run(bench.device, x, local_size=5, beta=beta, alpha=5.0, bias=1.0)
        np.testing.assert_array_equal(result, expected)
        numbers = ~np.isnan(expected)
        assert np.array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))
