"""Pictures of other sizes, pools and padding, and their gradients: on the device, as on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")  # CI has it in a check of its own

import dmlvk.torch  # noqa: E402 - needs PyTorch

functional = torch.nn.functional
assert dmlvk.torch  # importing it registers the device

_SIZES = {1: (2, 3, 7), 2: (1, 2, 7, 6), 3: (1, 2, 7, 6, 5)}


def _case(function: str, axes: int, *given: Any, **named: Any) -> Any:
    return pytest.param(function, axes, given, named, id=" ".join(map(str, (function, axes, *given, *named.values()))))


def _interpolated(mode: str, axes: int) -> list[Any]:
    kinds: list[dict[str, Any]] = [{"scale_factor": 1.7}, {"scale_factor": 2.0}, {"size": [3] * axes}]
    if mode in ("nearest", "nearest-exact"):
        return [_case("interpolate", axes, mode=mode, **kind) for kind in kinds]
    return [
        _case("interpolate", axes, mode=mode, align_corners=align, **kind) for kind in kinds for align in (False, True)
    ]


@pytest.mark.parametrize(
    ("function", "axes", "given", "named"),
    [
        *(case for axes in (1, 2, 3) for case in _interpolated("nearest", axes)),
        *_interpolated("nearest-exact", 2),
        *_interpolated("linear", 1),
        *_interpolated("bilinear", 2),
        *_interpolated("trilinear", 3),
        *_interpolated("bicubic", 2),
        _case("interpolate", 2, mode="bilinear", antialias=True, size=[3, 2]),
        *(_case("pad", axes, (1, 2) * axes, mode="replicate") for axes in (1, 2, 3)),
        _case("pad", 2, (-1, 2, 1, -2), mode="replicate"),
        *(_case(f"adaptive_avg_pool{axes}d", axes, size) for axes in (1, 2, 3) for size in (1, 3)),
        *(_case(f"adaptive_max_pool{axes}d", axes, size) for axes in (1, 2, 3) for size in (1, 3)),
        *(_case(f"avg_pool{axes}d", axes, 3, 2, 1, True, counts) for axes in (1, 2, 3) for counts in (True, False)),
        *(_case(f"avg_pool{axes}d", axes, 3, 2, 1, False, True, 5) for axes in (2, 3)),
        _case("max_pool3d", 3, 3, 2, 1, 1, True),
        _case("softshrink", 1),
        _case("hardshrink", 1),
    ],
)
def test_what_is_resampled_and_its_gradient_are_as_on_the_cpu(
    strict: str, function: str, axes: int, given: Any, named: Any
) -> None:
    x, found = torch.randn(_SIZES[axes]), []
    for where in ("cpu", strict):
        own = x.detach().to(where).requires_grad_()
        made = getattr(functional, function)(own, *given, **named)
        weights = torch.arange(made.numel(), dtype=torch.float32).cos().reshape(made.shape)
        (made * weights.to(where)).sum().backward()
        found.append((made.detach().cpu(), own.grad.cpu()))
    for wanted, computed in zip(*found, strict=True):
        assert torch.allclose(computed, wanted, rtol=0, atol=1e-5 * max(1.0, float(wanted.abs().max())))


def test_the_place_of_the_largest_pixel_of_an_unequal_part_is_its_first(strict: str) -> None:
    x = torch.randint(0, 3, (2, 1, 7, 5)).float()
    for size in ((3, 2), (5, 4)):
        wanted = functional.adaptive_max_pool2d(x, size, return_indices=True)
        found = functional.adaptive_max_pool2d(x.to(strict), size, return_indices=True)
        assert all(torch.equal(a, b.cpu()) for a, b in zip(wanted, found, strict=True))
