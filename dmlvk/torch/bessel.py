"""Bessel's functions, the gamma function's relatives and the error function's, by formulas from the literature.

Errors are those of the formulas, 1e-7 of the largest number about, and of FLOAT32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from dmlvk.torch.activations import in_float32

_aten = torch.ops.aten

Function = Callable[[torch.Tensor], torch.Tensor]


def polynomial(x: torch.Tensor, *coefficients: float) -> torch.Tensor:
    """By Horner's rule, from the lowest power up."""
    made = torch.full_like(x, coefficients[-1])
    for each in coefficients[-2::-1]:
        made = made * x + each
    return made


# Abramowitz, Stegun: Handbook of Mathematical Functions, 1964, 9.8: I and K of orders 0 and 1.
_I_NEAR = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411),
)
_I_FAR = (
    (
        *(0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537, -0.01647633),
        0.00392377,
    ),
    (
        *(0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555, 0.02282967, -0.02895312, 0.01787654),
        -0.00420059,
    ),
)
_K_NEAR = (
    (-0.57721566, 0.42278420, 0.23069756, 0.03488590, 0.00262698, 0.00010750, 0.00000740),
    (1.0, 0.15443144, -0.67278579, -0.18156897, -0.01919402, -0.00110404, -0.00004686),
)
_K_FAR = (
    (1.25331414, -0.07832358, 0.02189568, -0.01062446, 0.00587872, -0.00251540, 0.00053208),
    (1.25331414, 0.23498619, -0.03655620, 0.01504268, -0.00780353, 0.00325614, -0.00068245),
)


def _modified_first(order: int, is_scaled: bool, x: torch.Tensor) -> torch.Tensor:
    """I of order 0 or 1; scaled by exp(-abs(x))."""
    size = x.abs()
    t = size / 3.75
    near = polynomial((t * t).clamp(max=1), *_I_NEAR[order]) * (size if order else 1)
    far = polynomial(1 / t.clamp(min=1), *_I_FAR[order]) / torch.sqrt(size.clamp(min=1))
    made = torch.where(
        t < 1, near * torch.exp(-size) if is_scaled else near, far if is_scaled else far * torch.exp(size)
    )
    return torch.where(x < 0, -made, made) if order else made


def _modified_second(order: int, is_scaled: bool, x: torch.Tensor) -> torch.Tensor:
    """K of order 0 or 1; scaled by exp(x)."""
    low = x.clamp(0, 2)
    half = low / 2
    logarithm = torch.log(half) * _modified_first(order, False, low)
    series = polynomial(half * half, *_K_NEAR[order])
    near = logarithm + series / low if order else series - logarithm
    far = polynomial(2 / x.clamp(min=2), *_K_FAR[order]) / torch.sqrt(x.clamp(min=2))
    made = torch.where(x <= 2, near * torch.exp(low) if is_scaled else near, far if is_scaled else far * torch.exp(-x))
    made = torch.where(x == 0, math.inf, made)
    return torch.where(x < 0, math.nan, made)


# Press, Teukolsky, Vetterling, Flannery: Numerical Recipes, 6.5, after Hart et al.: Computer Approximations, 1968.
_J = (
    (
        (57568490574.0, -13362590354.0, 651619640.7, -11214424.18, 77392.33017, -184.9052456),
        (57568490411.0, 1029532985.0, 9494680.718, 59272.64853, 267.8532712, 1.0),
    ),
    (
        (72362614232.0, -7895059235.0, 242396853.1, -2972611.439, 15704.48260, -30.16036606),
        (144725228442.0, 2300535178.0, 18583304.74, 99447.43394, 376.9991397, 1.0),
    ),
)
_Y = (
    (
        (-2957821389.0, 7062834065.0, -512359803.6, 10879881.29, -86327.92757, 228.4622733),
        (40076544269.0, 745249964.8, 7189466.438, 47447.26470, 226.1030244, 1.0),
    ),
    (
        (-0.4900604943e13, 0.1275274390e13, -0.5153438139e11, 0.7349264551e9, -0.4237922726e7, 0.8511937935e4),
        (0.2499580570e14, 0.4244419664e12, 0.3733650367e10, 0.2245904002e8, 0.1020426050e6, 0.3549632885e3, 1.0),
    ),
)
_WAVE = (
    (
        (1.0, -0.1098628627e-2, 0.2734510407e-4, -0.2073370639e-5, 0.2093887211e-6),
        (-0.1562499995e-1, 0.1430488765e-3, -0.6911147651e-5, 0.7621095161e-6, -0.934935152e-7),
    ),
    (
        (1.0, 0.183105e-2, -0.3516396496e-4, 0.2457520174e-5, -0.240337019e-6),
        (0.04687499995, -0.2002690873e-3, 0.8449199096e-5, -0.88228987e-6, 0.105787412e-6),
    ),
)


def _quotient(y: torch.Tensor, coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> torch.Tensor:
    return polynomial(y, *coefficients[0]) / polynomial(y, *coefficients[1])


def _wave(order: int, x: torch.Tensor, is_second: bool) -> torch.Tensor:
    """From 8 on: a sine or cosine that becomes smaller."""
    z = 8 / x
    y, phase = z * z, x - (2.356194491 if order else 0.785398164)
    even, odd = polynomial(y, *_WAVE[order][0]), z * polynomial(y, *_WAVE[order][1])
    sine, cosine = torch.sin(phase), torch.cos(phase)
    return torch.sqrt(0.636619772 / x) * (sine * even + cosine * odd if is_second else cosine * even - sine * odd)


def _first(order: int, x: torch.Tensor) -> torch.Tensor:
    size = x.abs()
    low = size.clamp(max=8)
    near = _quotient(low * low, _J[order]) * (low if order else 1)
    made = torch.where(size < 8, near, _wave(order, size.clamp(min=8), False))
    made = torch.where(size == math.inf, 0.0, made)
    return torch.where(x < 0, -made, made) if order else made


def _second(order: int, x: torch.Tensor) -> torch.Tensor:
    low = x.clamp(0, 8)
    near = _quotient(low * low, _Y[order]) * (low if order else 1)
    near = near + 0.636619772 * (_first(order, low) * torch.log(low) - (1 / low if order else 0))
    made = torch.where(x < 8, near, _wave(order, x.clamp(min=8), True))
    made = torch.where(x == 0, -math.inf, torch.where(x == math.inf, 0.0, made))
    return torch.where(x < 0, math.nan, made)


def _spherical(x: torch.Tensor) -> torch.Tensor:
    made = torch.where(x.abs() < 0.5, polynomial(x * x, 1, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880), torch.sin(x) / x)
    return torch.where(x.abs() == math.inf, 0.0, made)


_SHIFTS = 6


def _digamma(x: torch.Tensor) -> torch.Tensor:
    """Abramowitz, Stegun, 6.3.5, 6.3.7, 6.3.18."""
    is_low = x < 0.5
    y = torch.where(is_low, 1 - x, x)
    less = torch.zeros_like(x)
    for _ in range(_SHIFTS):
        is_small = y < _SHIFTS
        less, y = torch.where(is_small, less + 1 / y, less), torch.where(is_small, y + 1, y)
    z = 1 / (y * y)
    above = torch.log(y) - 0.5 / y - z * polynomial(z, 1 / 12, -1 / 120, 1 / 252, -1 / 240) - less
    rest = x - torch.round(x)
    made = torch.where(is_low, above - math.pi / torch.tan(math.pi * rest), above)
    made = torch.where(is_low & (rest == 0), math.nan, made)
    made = torch.where(x == 0, torch.copysign(torch.full_like(x, math.inf), -x), made)
    return torch.where(x == math.inf, math.inf, torch.where(x == -math.inf, math.nan, made))


_SUMMED = 24
_BERNOULLI = 1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160


def _zeta(s: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Hurwitz's, by Euler's and Maclaurin's sum (Abramowitz, Stegun, 23.2)."""
    s, q = torch.broadcast_tensors(s, q)
    made = torch.zeros_like(q)
    for k in range(_SUMMED):
        made = made + torch.pow(q + k, -s)
    w = q + _SUMMED
    power = torch.pow(w, -s)
    made = made + power * (w / (s - 1) + 0.5)
    factor = s * power / w
    for k, each in enumerate(_BERNOULLI):
        made = made + each * factor
        factor = factor * ((s + 2 * k + 1) / w) * ((s + 2 * k + 2) / w)
    is_pole, is_whole = (q <= 0) & (q == torch.floor(q)), s == torch.floor(s)
    made = torch.where(is_pole, math.inf, torch.where((q < 0) & ~is_whole, math.nan, made))
    return torch.where(s == 1, math.inf, torch.where(s < 1, math.nan, made))


def _trigamma(x: torch.Tensor) -> torch.Tensor:
    is_low = x < 0.5
    above = _zeta(torch.full_like(x, 2), torch.where(is_low, 1 - x, x))
    wave = math.pi / torch.sin(math.pi * (x - torch.round(x)))
    return torch.where(x == math.inf, 0.0, torch.where(is_low, wave * wave - above, above))


def _polygamma(n: int, x: torch.Tensor) -> torch.Tensor:
    x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    if n < 2:
        made: torch.Tensor = in_float32(_trigamma if n else _digamma)(x)
        return made
    factor = math.factorial(n) * (1 if n % 2 else -1)
    return in_float32(lambda one: _zeta(torch.full_like(one, n + 1), one) * factor)(x)


def _scaled_tail(x: torch.Tensor) -> torch.Tensor:
    """Exp(x^2) erfc(x), by erfc and, far out, its asymptotic series (Abramowitz, Stegun, 7.1.23)."""
    near = torch.exp((x * x).clamp(max=88)) * torch.erfc(x.clamp(max=4))
    z = 1 / (2 * x * x)
    far = polynomial(z, 1, -1, 3, -15, 105) / (x * math.sqrt(math.pi))
    return torch.where(x < 4, torch.where(x < -9.38, math.inf, near), far)


def _log_normal(x: torch.Tensor) -> torch.Tensor:
    t = x * math.sqrt(0.5)
    low = torch.log(_scaled_tail(-t.clamp(max=-0.5)) / 2) - t * t
    return torch.where(x < -1, low, torch.log1p(-torch.erfc(t.clamp(min=-1)) / 2))


def _quantile(p: torch.Tensor) -> torch.Tensor:
    """Of the normal distribution; small ones by Newton's steps in logarithms."""
    tail = torch.minimum(p, 1 - p)
    r = torch.sqrt(-2 * torch.log(tail))  # Abramowitz, Stegun, 26.2.23
    guess = polynomial(r, 2.515517, 0.802853, 0.010328) / polynomial(r, 1, 1.432788, 0.189269, 0.001308) - r
    for _ in range(2):
        value = _log_normal(guess)
        slope = torch.exp(-0.5 * guess * guess - 0.918938533 - value)
        guess = guess - (value - torch.log(tail)) / slope
    middle = math.sqrt(2) * torch.erfinv(2 * p - 1)
    made = torch.where((p - 0.5).abs() < 0.4, middle, torch.where(p < 0.5, guess, -guess))
    made = torch.where(p == 0, -math.inf, torch.where(p == 1, math.inf, made))
    return torch.where((p < 0) | (p > 1), math.nan, made)


def _floats(function: Function) -> Function:
    """For operators whose integers become floats."""

    def computed(x: torch.Tensor) -> torch.Tensor:
        return in_float32(function)(x if x.is_floating_point() else x.to(torch.get_default_dtype()))

    return computed


def _of(function: Callable[..., torch.Tensor], *arguments: Any) -> Function:
    return lambda x: function(*arguments, x)


_FUNCTIONS: dict[str, Function] = {
    "i0": _of(_modified_first, 0, False),
    "special_i0e": _of(_modified_first, 0, True),
    "special_i1": _of(_modified_first, 1, False),
    "special_i1e": _of(_modified_first, 1, True),
    "special_modified_bessel_i0": _of(_modified_first, 0, False),
    "special_modified_bessel_i1": _of(_modified_first, 1, False),
    "special_modified_bessel_k0": _of(_modified_second, 0, False),
    "special_modified_bessel_k1": _of(_modified_second, 1, False),
    "special_scaled_modified_bessel_k0": _of(_modified_second, 0, True),
    "special_scaled_modified_bessel_k1": _of(_modified_second, 1, True),
    "special_bessel_j0": _of(_first, 0),
    "special_bessel_j1": _of(_first, 1),
    "special_bessel_y0": _of(_second, 0),
    "special_bessel_y1": _of(_second, 1),
    "special_spherical_bessel_j0": _spherical,
    "digamma": _digamma,
    "special_erfcx": _scaled_tail,
    "special_log_ndtr": _log_normal,
    "special_ndtri": _quantile,
}


def _zeta_of_floats(s: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    wanted = torch.result_type(s, q)
    wanted = wanted if wanted.is_floating_point else torch.get_default_dtype()
    return _zeta(s.to(torch.float32), q.to(torch.float32)).to(wanted)


BESSEL: dict[Any, Callable[..., Any]] = {
    **{getattr(_aten, name).default: _floats(function) for name, function in _FUNCTIONS.items()},
    _aten.polygamma.default: _polygamma,
    _aten.special_zeta.default: _zeta_of_floats,
}
"""By operator."""
