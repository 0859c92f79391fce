"""Random programs of PyTorch's beside its CPU: ``python -m tests.attack --only torch_values``.

Each program is some steps over a pool of tensors, of several shapes, types and strides: views, broadcasting, changes in
place, products, reductions, indices. It is run by eager PyTorch in FLOAT64 and FLOAT32, and by dmlvk, forward and
backward, twice, the second time with other inputs. A result is right that is as near to FLOAT64's as 20 times eager
FLOAT32 is, or within 1e-4 of the largest number in it. Programs for which eager FLOAT32 is far from FLOAT64 (by a
comparison that falls out otherwise, say) are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from dmlvk.torch.types import NAME

_NEAR, _TIMES, _FAR = 1e-4, 20.0, 1e-2

Step = Callable[[list[torch.Tensor]], torch.Tensor]


def _any(dice: random.Random, pool: list[torch.Tensor], accepts: Callable[[torch.Tensor], bool]) -> int:
    """The place of a tensor in the pool; later ones are likelier."""
    indices = [index for index, value in enumerate(pool) if accepts(value)]
    if not indices:
        raise LookupError
    return max(dice.choice(indices), dice.choice(indices))


def _is_float(value: torch.Tensor) -> bool:
    return bool(value.is_floating_point())


def _floats(rank: int) -> Callable[[torch.Tensor], bool]:
    return lambda value: value.is_floating_point() and value.dim() >= rank


_OF_ONE: list[Callable[[torch.Tensor], torch.Tensor]] = [
    torch.tanh,
    torch.sigmoid,
    torch.relu,
    torch.exp2,
    torch.sin,
    torch.erf,
    torch.abs,
    functional.gelu,
    functional.silu,
    functional.softplus,
    functional.hardswish,
    lambda x: x.clamp(-0.7, 0.9),
    lambda x: (x * x + 0.5).rsqrt(),
    lambda x: (x.abs() + 0.1).log(),
    lambda x: x.pow(3),
    lambda x: 1.5 - x / 3,
]

_OF_TWO: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    torch.minimum,
    lambda a, b: a / (b * b + 1),
    lambda a, b: torch.where(a > b, a, b * 0.5),
    lambda a, b: torch.addcmul(a, a, b, value=0.3),
    lambda a, b: torch.lerp(a, b, 0.3),
    torch.atan2,
]

_INPLACE: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x.mul_(0.5),
    lambda x: x.add_(1),
    lambda x: x.tanh_(),
    lambda x: x.clamp_(min=-0.5),
    lambda x: x.neg_(),
]


def _of_one(dice: random.Random, pool: list[torch.Tensor]) -> Step:
    index, function = _any(dice, pool, _is_float), dice.choice(_OF_ONE)
    return lambda pool: function(pool[index])


def _of_two(dice: random.Random, pool: list[torch.Tensor]) -> Step:
    first, second, function = _any(dice, pool, _is_float), _any(dice, pool, _is_float), dice.choice(_OF_TWO)
    return lambda pool: function(pool[first], pool[second])


def _reduced(dice: random.Random, pool: list[torch.Tensor]) -> Step:
    index = _any(dice, pool, _floats(1))
    axis, keeps = dice.randrange(-pool[index].dim(), pool[index].dim()), dice.random() < 0.6
    function: Callable[..., torch.Tensor] = dice.choice(
        [
            torch.sum,
            torch.mean,
            torch.amax,
            torch.amin,
            torch.logsumexp,
            lambda x, *a, **k: x.var(*a, correction=0, **k),
        ]
    )
    return lambda pool: function(pool[index], axis, keepdim=keeps)


def _along(dice: random.Random, pool: list[torch.Tensor]) -> Step:
    index = _any(dice, pool, _floats(1))
    axis = dice.randrange(-pool[index].dim(), pool[index].dim())
    kinds: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x.softmax(axis),
        lambda x: x.log_softmax(axis),
        lambda x: x.cumsum(axis),
        lambda x: x.flip(axis),
        lambda x: x.roll(1, axis),
        lambda x: x.sort(axis).values,
        lambda x: x.topk(1, axis).values,
        lambda x: functional.normalize(x, dim=axis),
        lambda x: x.diff(dim=axis),
        lambda x: torch.cat([x, x * 2], axis),
        lambda x: torch.stack([x, -x], axis),
        lambda x: x.cumprod(axis),
    ]
    function = dice.choice(kinds)
    return lambda pool: function(pool[index])


def _view(dice: random.Random, pool: list[torch.Tensor]) -> Step:
    index = _any(dice, pool, lambda value: value.dim() >= 1)
    x = pool[index]
    axis, other = dice.randrange(x.dim()), dice.randrange(x.dim())
    size = x.shape[axis]
    start, step = dice.randrange(size), dice.choice([1, 1, 2])
    order = dice.sample(range(x.dim()), x.dim())
    kinds: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x.transpose(axis, other),
        lambda x: x.permute(order),
        lambda x: x[(slice(None),) * axis + (slice(start, None, step),)],
        lambda x: x.select(axis, start),
        lambda x: x.unsqueeze(axis),
        lambda x: x.flatten(),
        lambda x: x.reshape(x.shape[0], -1),
        lambda x: x.narrow(axis, start, size - start),
        lambda x: x.unsqueeze(0).expand(2, *x.shape),
        lambda x: x.chunk(2, axis)[0],
    ]
    function = dice.choice(kinds)
    return lambda pool: function(pool[index])


def _product(dice: random.Random, pool: list[torch.Tensor]) -> Step:
    first, second = _any(dice, pool, _floats(2)), _any(dice, pool, _floats(2))
    kinds: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
        lambda a, b: a @ b.mT / a.shape[-1],
        lambda a, b: a.mT @ b / a.shape[-2],
        lambda a, b: torch.einsum("...i,...i->...", a, b),
    ]
    function = dice.choice(kinds)
    return lambda pool: function(pool[first], pool[second])


def _picked(dice: random.Random, pool: list[torch.Tensor]) -> Step:
    index = _any(dice, pool, _floats(1))
    x = pool[index]
    axis = dice.randrange(x.dim())
    indices = torch.tensor([dice.randrange(x.shape[axis]) for _ in range(dice.randint(1, 4))])
    kinds: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x.index_select(axis, indices.to(x.device)),
        lambda x: x.index_add(axis, indices.to(x.device), x.index_select(axis, indices.to(x.device)) * 0.5),
        lambda x: x.index_fill(axis, indices.to(x.device), 0.25),
        lambda x: x[(slice(None),) * axis + (indices,)],
        lambda x: x.gather(axis, (x > 0).long() % x.shape[axis]),
        lambda x: x.masked_fill(x > 0.5, -1.0),
        lambda x: torch.where(x > 0, x, 0.1),
    ]
    function = dice.choice(kinds)
    return lambda pool: function(pool[index])


def _whole(dice: random.Random, pool: list[torch.Tensor]) -> Step:
    index = _any(dice, pool, lambda value: not value.is_floating_point() and value.dtype is not torch.bool)
    kinds: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x * 3 - 1,
        lambda x: x // 2,
        lambda x: x % 3,
        lambda x: (x > 1).to(torch.int64) + x,
        lambda x: x.bitwise_and(3),
        lambda x: x.clamp(-2, 2),
        lambda x: -x,
        lambda x: x.float() * 0.25,
        lambda x: x.sum(0),
        lambda x: x.to(torch.int32),
        lambda x: (x == 1).any(0),
        lambda x: (x > -3).all(-1),
    ]
    function = dice.choice(kinds)
    return lambda pool: function(pool[index])


def _mixed(dice: random.Random, pool: list[torch.Tensor]) -> Step:
    first, second = _any(dice, pool, _is_float), _any(dice, pool, lambda value: not value.is_floating_point())
    kinds: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
        torch.mul,
        torch.add,
        lambda a, b: torch.where(b != 0, a, -a),
    ]
    function = dice.choice(kinds)
    return lambda pool: function(pool[first], pool[second])


def _in_place(dice: random.Random, pool: list[torch.Tensor]) -> Step:
    """Changes what is no argument that wants a gradient, or a view of what was computed."""
    index = _any(dice, pool, lambda value: value.is_floating_point() and value.dim() > 0)
    function = dice.choice(_INPLACE)
    how = dice.randrange(3)

    def changed(pool: list[torch.Tensor]) -> torch.Tensor:
        base = pool[index].clone()
        target = (base, base[..., :1], base.flip(0)[:1] if how == 2 else base[:1])[how]
        made = function(target)
        return base + 0 * made.sum() if how else made

    return changed


def _argument(dice: random.Random, pool: list[torch.Tensor]) -> Step:
    """Changes an argument that wants no gradient."""
    index = _any(dice, pool[:4], lambda value: value.is_floating_point() and not value.requires_grad)
    factor = dice.choice([0.5, -1.5])
    return lambda pool: pool[index].mul_(factor)


_KINDS = [_of_one, _of_one, _of_two, _of_two, _reduced, _along, _along, _view, _view, _view, _product, _picked, _picked]
_KINDS += [_whole, _mixed, _in_place, _argument]


def _inputs(shapes: Sequence[tuple[int, ...]], seed: int) -> list[torch.Tensor]:
    """Two that want gradients, one that does not, by strides, and integers."""
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randn(shape, generator=generator) for shape in shapes[:3]]
    made[2] = torch.randn(tuple(reversed(shapes[2])), generator=generator).permute(*reversed(range(len(shapes[2]))))
    return [*made, torch.randint(-3, 4, shapes[3], generator=generator)]


def _prepared(values: Sequence[torch.Tensor], dtype: torch.dtype, device: str = "cpu") -> list[torch.Tensor]:
    made = [value.to(device, dtype) if value.is_floating_point() else value.to(device).clone() for value in values]
    made[2] = made[2].clone(memory_format=torch.preserve_format)
    return [value.clone().requires_grad_() if index < 2 else value for index, value in enumerate(made)]


def _program(dice: random.Random, values: Sequence[torch.Tensor], count: int) -> list[Step]:
    pool = _prepared(values, torch.float32)
    steps: list[Step] = []
    while len(steps) < count:
        try:
            step = dice.choice(_KINDS)(dice, pool)
            made = step(pool)
        except (LookupError, RuntimeError, IndexError, ValueError):
            continue
        if made.numel() == 0 or made.numel() > 4096 or made.dim() > 5:
            continue
        steps.append(step)
        pool.append(made)
    return steps


def _results(run: Callable[..., Any], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """What the program gives, what it changed, and gradients."""
    made = list(run(*inputs))
    total = sum((value.to(inputs[0].dtype) * 0.1).sum() for value in made if value.is_floating_point())
    gradients = []
    if isinstance(total, torch.Tensor) and total.requires_grad:
        gradients = list(torch.autograd.grad(total, inputs[:2], allow_unused=True))
    zeros = [torch.zeros_like(like) if item is None else item for item, like in zip(gradients, inputs, strict=False)]
    return [value.detach().cpu() for value in [*made, inputs[2], *zeros]]


def _error(found: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> str:
    if (found.shape, found.dtype) != (eager.shape, eager.dtype):
        return f"gives {list(found.shape)} {found.dtype} instead of {list(eager.shape)} {eager.dtype}"
    if not eager.is_floating_point():
        return "" if torch.equal(found, eager) else f"{int((found != eager).sum())} of {eager.numel()} differ"
    allowed = _TIMES * float((eager - exact).abs().max()) + _NEAR * max(1.0, float(exact.abs().max()))
    far = float((found - exact).abs().max())
    return "" if far <= allowed else f"differs by {far:.1e}, the largest is {float(exact.abs().max()):.1e}"


def _is_stable(eager: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> bool:
    for a, b in zip(eager, exact, strict=True):
        if not a.is_floating_point():
            if not torch.equal(a, b):
                return False
            continue
        if not a.isfinite().all() or float(a.abs().max()) > 1e6:
            return False
        if float((a.double() - b.double()).abs().max()) > _FAR * max(1.0, float(b.double().abs().max())):
            return False
    return True


def check(seed: int, index: int, *, is_eager: bool) -> str | None:
    """What is wrong with a program; ``None``: it cannot be compared.

    Args:
        index: of the device that it is compiled for, unless its tensors are on PyTorch's device.
    """
    dice = random.Random(seed)
    shape = tuple(dice.randint(1, 6) for _ in range(dice.randint(1, 4)))
    shapes = [shape, *(tuple(dice.choice([size, size, 1]) for size in shape) for _ in range(3))]
    steps = _program(dice, _inputs(shapes, seed), dice.randint(5, 12))

    def run(*inputs: torch.Tensor) -> list[torch.Tensor]:
        pool = list(inputs)
        for step in steps:
            pool.append(step(pool))
        return pool[4:][-4:]

    torch._dynamo.reset()
    tried = run if is_eager else torch.compile(run, backend="dmlvk", options={"device": index})
    for again in range(2):
        values = _inputs(shapes, seed + 1_000_000 * again)
        try:
            exact, eager = (_results(run, _prepared(values, dtype)) for dtype in (torch.float64, torch.float32))
        except RuntimeError:
            return None
        if not _is_stable(eager, exact):
            return None
        try:
            found = _results(tried, _prepared(values, torch.float32, NAME if is_eager else "cpu"))
        except Exception as error:  # noqa: BLE001  # any kind is a finding
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
        for place, items in enumerate(zip(found, eager, exact, strict=True)):
            wrong = _error(*items)
            if wrong:
                return f"result {place} of {len(found)}, call {again + 1}: {wrong}"
    return ""
