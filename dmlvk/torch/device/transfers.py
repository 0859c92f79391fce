"""What is no computation: memory, copies to and from the device, views, random numbers, numbers of Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dmlvk.array_api.lazy import Operation
from dmlvk.arrays.values import Value
from dmlvk.errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError
from dmlvk.torch.composites import repeated
from dmlvk.torch.device import geometry, tensors
from dmlvk.torch.device.fused import FUSED
from dmlvk.torch.device.kernels import Kernel
from dmlvk.torch.device.recorder import RECORDER, deferred
from dmlvk.torch.device.tensors import (
    DeviceStorage,
    check_dtype,
    check_index,
    form_of,
    from_host,
    host_of,
    record_of,
    reset,
    tensor_of,
    value_of,
    write,
)
from dmlvk.torch.draws import DRAWS
from dmlvk.torch.types import DATA_TYPES, NAME

_aten = torch.ops.aten
_META = torch._C.DispatchKey.Meta

SPECIAL: dict[str, Callable[..., Any]] = {}  # Kernels by the operators' names


def _special(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        SPECIAL.update(dict.fromkeys(names, function))
        return function

    return register


def _filled(shape: Sequence[int], dtype: torch.dtype, value: Any) -> Value | None:
    """One number everywhere."""
    check_dtype(dtype)
    sizes = tuple(map(int, shape))
    if not math.prod(sizes):
        return None
    data_type = DATA_TYPES[dtype]
    size, most = data_type.bytes_of(math.prod(sizes)), RECORDER.device.info.memory
    if size > most:
        raise OutOfMemoryError(f"torch: a tensor of {dtype} {list(sizes)} needs {size} bytes; the device has {most}")
    if dtype is torch.bool:
        value = int(bool(value))
    elif not data_type.is_float or dtype is torch.bfloat16:
        value = torch.full((), value, dtype=dtype, device="cpu").item()
    operation = Operation(geometry.filled, (data_type, sizes, value))
    return deferred(operation, (), data_type, sizes)


@_special("empty.memory_format", "_efficientzerotensor")  # what derivatives begin with are zeros as others
def _empty(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    wanted = torch.get_default_dtype() if dtype is None else dtype
    check_index(device)
    if 0 in size and len(size) == 1:  # as batch normalization asks for, and leaves
        check_dtype(wanted)
        return tensor_of(None, (0,), wanted)
    strides = torch.empty(size, dtype=wanted, device="meta", memory_format=memory_format).stride()
    return tensor_of(_filled(size, wanted, 0), tuple(size), wanted, tuple(strides))


@_special("empty_strided")
def _empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    wanted = torch.get_default_dtype() if dtype is None else dtype
    check_index(device)
    shape, strides = tuple(size), tuple(stride)
    if geometry.flattened(shape, strides) is not None or not math.prod(shape):
        return tensor_of(_filled(shape, wanted, 0), shape, wanted, strides)
    last = sum((count - 1) * step for count, step in zip(shape, strides, strict=True))
    return tensor_of(_filled((last + 1,), wanted, 0), (last + 1,), wanted).as_strided(shape, strides)


@_special("fill_.Scalar")
def _fill(x: torch.Tensor, value: Any) -> torch.Tensor:
    made = _filled(x.shape, x.dtype, value)
    if made is not None:
        write(x, made)
    return x


@_special("zero_")
def _zero(x: torch.Tensor) -> torch.Tensor:
    return _fill(x, 0)


@_special("fill_.Tensor")
def _fill_with(x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    if value.dim():
        raise InvalidArgumentError(f"fill_: needs a tensor without axes; got {list(value.shape)}")
    return _copy(x, value)


@_special("copy_")
def _copy(x: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    if x.device.type != NAME:
        return x.copy_(host_of(source))
    if not x.numel():
        return x
    if source.device.type == NAME:
        if source.dtype is not x.dtype:
            source = source.to(x.dtype)
    else:
        source = from_host(source.detach().to(device="cpu", dtype=x.dtype))
    if source.shape != x.shape:
        source = source.expand(x.shape)
    write(x, value_of(source))
    return x


_converted = Kernel(_aten._to_copy.default, _aten._to_copy.default)


@_special("_to_copy")
def _to_copy(
    x: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    if device is None and memory_format is None and dtype in DATA_TYPES and x.device.type == NAME:
        cast: torch.Tensor = _converted(x, dtype=dtype)  # the most there are
        return cast
    wanted = x.dtype if dtype is None else dtype
    target = x.device.type if device is None else device.type
    if wanted is torch.float64 and device is None and not x.dim():
        target = "cpu"  # as a number, which GradScaler takes the reciprocal of
    form: dict[str, Any] = {} if memory_format is None else {"memory_format": memory_format}
    if target == NAME:
        check_index(device)
        check_dtype(wanted)
    if x.device.type == NAME and target == NAME:
        made: torch.Tensor = _converted(x, dtype=wanted, **form)
    elif x.device.type == NAME:
        made = host_of(x).to(device=target, dtype=wanted, **form)
    else:
        made = from_host(x.detach().to(device="cpu", dtype=wanted, **form))
    return made


@_special("_local_scalar_dense")
def _scalar(x: torch.Tensor) -> Any:
    return host_of(x).item()


@_special("equal")
def _equal(x: torch.Tensor, other: torch.Tensor) -> bool:
    if x.device != other.device:
        raise InvalidArgumentError(f"equal: all tensors must be on one device; got {x.device} and {other.device}")
    return x.shape == other.shape and bool(torch.eq(x, other).all().item())


@_special("is_same_size")
def _has_same_shape(x: torch.Tensor, other: torch.Tensor) -> bool:
    return x.shape == other.shape


@_special("_has_same_storage_numel")
def _has_as_much_memory(x: torch.Tensor, other: torch.Tensor) -> bool:
    """Which forward derivatives ask for: they lie as what they are of does."""
    return x.untyped_storage().nbytes() * other.itemsize == other.untyped_storage().nbytes() * x.itemsize


@_special("_new_zeros_with_same_feature_meta")
def _zeros_that_lie_as(x: torch.Tensor, other: torch.Tensor, *, self_num_batch_dims: int = 0) -> torch.Tensor:
    """Zeros of memory as another tensor has it; a batch of them, of so many axes of ``x``."""
    batch, count = x.shape[:self_num_batch_dims], other.untyped_storage().nbytes() // other.itemsize
    zeros = x.new_zeros((*batch, count))
    return zeros.as_strided((*batch, *other.shape), (*zeros.stride()[:-1], *other.stride()), other.storage_offset())


@_special("as_strided")
def _as_strided(
    x: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> torch.Tensor:
    return tensors.window(x, size, stride, x.storage_offset() if storage_offset is None else storage_offset)


@_special("as_strided_")
def _as_strided_in_place(
    x: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> torch.Tensor:
    offset = x.storage_offset() if storage_offset is None else storage_offset
    tensors._set._op_dk(_META, x, x.untyped_storage(), offset, size, stride)
    return x


@_special("view")
def _view(x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    made: torch.Tensor = _aten.view.default._op_dk(_META, x, size)
    return made


@_special("_reshape_alias")
def _reshape_alias(x: torch.Tensor, size: Sequence[int], stride: Sequence[int]) -> torch.Tensor:
    return _as_strided(x, size, stride)


@_special("unfold")
def _unfold(x: torch.Tensor, dimension: int, size: int, step: int) -> torch.Tensor:
    made = torch.empty_strided(x.shape, x.stride(), device="meta").unfold(dimension, size, step)
    return _as_strided(x, made.shape, made.stride())


@_special("resize_")
def _resize(x: torch.Tensor, size: Sequence[int], memory_format: torch.memory_format | None = None) -> torch.Tensor:
    if tuple(size) == tuple(x.shape):
        return x
    count = math.prod(size)
    record = record_of(x)
    if not count or count > record.form.count:
        value = _filled((count,), x.dtype, 0)
        if value is not None and record.value is not None:
            value = _lengthened(record.value, value)
        reset(x, tuple(size), value)
        return x
    return _as_strided_in_place(x, size, torch.empty(tuple(size), device="meta").stride())


def _lengthened(before: Value, value: Value) -> Value:
    count = math.prod(before.shape)
    view = geometry.Geometry((count,), (1,), 0)
    flat = deferred(Operation(geometry.seen, (view,)), (before,), before.data_type, (count,))
    operation = Operation(geometry.written, (view,))
    return deferred(operation, (value, flat), value.data_type, value.shape)


@_special("set_.source_Storage", "set_.source_Storage_storage_offset")
def _set_storage(
    x: torch.Tensor, source: Any, storage_offset: int = 0, size: Sequence[int] | None = None, stride: Sequence[int] = ()
) -> torch.Tensor:
    record = getattr(source, "record", None)
    if record is None:
        raise InvalidArgumentError(f"set_: needs a storage of {NAME}")
    if record.form.dtype is torch.uint8 and x.dtype is not torch.uint8 and record.value is not None:
        _retype(record, x.dtype)
    sizes = (source.nbytes() // x.dtype.itemsize,) if size is None else tuple(size)
    strides = tuple(stride) or torch.empty(sizes, device="meta").stride()
    tensors._set._op_dk(_META, x, source, storage_offset, sizes, strides)
    return x


def _retype(record: tensors.Record, dtype: torch.dtype) -> None:
    """Has bytes that were loaded taken for what they are."""
    count = record.form.count // dtype.itemsize
    data = host_of(tensor_of(record.value, (record.form.count,), torch.uint8))[: count * dtype.itemsize].view(dtype)
    value = tensors.uploaded(data)
    record.form = form_of((count,), dtype)
    record.become(value)


@_special("set_.source_Tensor")
def _set_tensor(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return _set_storage(x, source.untyped_storage(), source.storage_offset(), source.shape, source.stride())


@_special("set_")
def _set_nothing(x: torch.Tensor) -> torch.Tensor:
    reset(x, (0,), None)
    return x


@_special("view.dtype")
def _view_as(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    raise UnsupportedError(f"view: {NAME} has no memory that is seen as two types; got {x.dtype} and {dtype}")


def _at_random(name: str) -> Callable[..., torch.Tensor]:
    """Random numbers are PyTorch's, from the generator of its CPU."""
    operator = getattr(torch.Tensor, name)

    def fill(x: torch.Tensor, *args: Any, generator: torch.Generator | None = None) -> torch.Tensor:
        if x.numel():
            made = operator(torch.empty(x.shape, dtype=x.dtype, device="cpu"), *args, generator=generator)
            write(x, tensors.uploaded(made))
        return x

    return fill


_RANDOM = {
    "normal_": ("normal_",),
    "uniform_": ("uniform_",),
    "random_": ("random_", "random_.from", "random_.to"),
    "bernoulli_": ("bernoulli_.float",),
    "exponential_": ("exponential_",),
    "cauchy_": ("cauchy_",),
    "geometric_": ("geometric_",),
    "log_normal_": ("log_normal_",),
}

SPECIAL.update(DRAWS)
SPECIAL.update(FUSED)
SPECIAL["repeat_interleave.Tensor"] = repeated  # PyTorch has no shapes for it, not even to refuse arguments by

for _name, _overloads in _RANDOM.items():
    _special(*_overloads)(_at_random(_name))


@_special("randperm.generator_out")
def _permutation(n: int, generator: torch.Generator | None = None, *, out: torch.Tensor) -> torch.Tensor:
    made = torch.randperm(n, generator=generator, dtype=out.dtype, device="cpu")
    reset(out, (n,), tensors.uploaded(made) if n else None)
    return out


@_special("randperm.out")
def _default_permutation(n: int, *, out: torch.Tensor) -> torch.Tensor:
    return _permutation(n, out=out)


@_special("native_dropout")
def _dropout(x: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """As the compiled backend has it: the mask is the CPU's."""
    mask = torch.empty_strided(x.shape, x.stride(), dtype=torch.bool, device="cpu")
    if train is False:
        return x.clone(), from_host(torch.ones_like(mask))
    chosen = from_host(mask.bernoulli_(1 - p))  # in the order of memory, as PyTorch draws
    return x * chosen * (1 / (1 - p) if p < 1 else 0.0), chosen


def _scattered(seen: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A copy with other elements where a view shows them."""

    def scattered(x: torch.Tensor, source: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        made = x.clone()
        seen(made, *args, **kwargs).copy_(source)
        return made

    return scattered


for _name, _seen in {
    "diagonal_scatter": torch.diagonal,
    "as_strided_scatter": torch.as_strided,
    "select_scatter": torch.select,
    "slice_scatter": _aten.slice.Tensor,
}.items():
    _special(_name)(_scattered(_seen))


_normalized = Kernel(*(_aten._native_batch_norm_legit_functional.default,) * 2)


@_special("native_batch_norm", "_native_batch_norm_legit")
def _batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor | None,
    variance: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, ...]:
    """Statistics that run are written, which the schema of this operator does not say."""
    if mean is None or variance is None:
        return tuple(_aten._native_batch_norm_legit.no_stats(x, weight, bias, training, momentum, eps))
    if not training:
        return tuple(_aten._native_batch_norm_legit_no_training(x, weight, bias, mean, variance, momentum, eps))
    made = _normalized(x, weight, bias, mean, variance, training, momentum, eps)
    write(mean, value_of(made[3]))
    write(variance, value_of(made[4]))
    return tuple(made[:3])


@_special("_batch_norm_with_update")
def _batch_norm_with_update(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, ...]:
    made = _batch_norm(x, weight, bias, mean, variance, True, momentum, eps)
    return *made, torch.empty(0, dtype=torch.uint8, device=x.device)


@_special("__ilshift__.Scalar", "__ilshift__.Tensor")
def _shift_left(x: torch.Tensor, count: Any) -> torch.Tensor:
    return x.copy_(x << count)


@_special("__irshift__.Scalar", "__irshift__.Tensor")
def _shift_right(x: torch.Tensor, count: Any) -> torch.Tensor:
    return x.copy_(x >> count)


@_special("_unsafe_view")
def _unsafe_view(x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """A view, where nobody looks at what it is a view of."""
    return x.view(size)


@_special("record_stream")
def _record_stream(x: torch.Tensor, stream: Any) -> None:
    """Nothing: memory is used in the order in which operators were recorded."""


@_special("embedding_renorm_")
def _renormalized(x: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float) -> torch.Tensor:
    """Rows that are looked up become no longer than a bound."""
    if not indices.numel():
        return x
    sizes = torch.linalg.vector_norm(x, norm_type, 1)
    is_met = torch.zeros(x.shape[0], dtype=torch.bool, device=x.device).index_fill(0, indices.flatten(), True)
    return x.mul_(torch.where(is_met & (sizes > max_norm), max_norm / (sizes + 1e-7), 1)[:, None])


@_special("_amp_foreach_non_finite_check_and_unscale_")
def _unscale(gradients: Sequence[torch.Tensor], found: torch.Tensor, factor: torch.Tensor) -> None:
    """For GradScaler: gradients by a factor, and whether any of them is no finite number."""
    for gradient in gradients:
        found.copy_(torch.maximum(found, (~torch.isfinite(gradient)).any().to(found.dtype)))
        gradient.mul_(factor)


@_special("_amp_update_scale_")
def _update_scale(
    scale: torch.Tensor, steps: torch.Tensor, found: torch.Tensor, growth: float, backoff: float, interval: int
) -> torch.Tensor:
    """For GradScaler: less after what is not finite, more after so many steps."""
    is_bad, is_due = found != 0, steps + 1 == interval
    larger = scale * growth
    grown = torch.where(is_due & torch.isfinite(larger), larger, scale)
    scale.copy_(torch.where(is_bad, scale * backoff, grown))
    steps.copy_(torch.where(is_bad | is_due, 0, steps + 1))
    return scale


def stored(source: Any) -> torch.UntypedStorage:
    """Bytes of a CPU storage as one on the device."""
    plain = torch.empty(0, dtype=torch.uint8, device="cpu").set_(source)
    made = from_host(plain).untyped_storage()
    assert isinstance(made, DeviceStorage)
    return made
