"""Results of one graph that are views of one another share memory exactly where those of eager PyTorch do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")


def _shown(y: Any) -> tuple[Any, ...]:
    return y, y.view(-1), y.t(), y.clone(), y + 0


def _changed(y: Any) -> tuple[Any, ...]:
    return y.add_(1), y[1:].mul_(2), y


PROGRAMS: dict[str, Callable[[Any], Sequence[Any]]] = {
    "shapes and copies": lambda x: _shown(x * 2),
    "slices": lambda x: (lambda y: (y[1:], y, y[:, 2:5]))(x * 2),
    "parts of what is not shown": lambda x: (lambda y: (y[:, 3:], y[:, :3]))(x.exp() + 1),
    "a split": lambda x: (x.exp() + 1).split([3, 5], 1),
    "rows": lambda x: (lambda y: (y[0], y[-1], y))(x @ x.t()),
    "a diagonal": lambda x: (lambda y: (y, y.diagonal(), y.sum()))(x @ x.t()),
    "another type": lambda x: (lambda y: (y, y.view(torch.int32)))(x + 1),
    "a view that the device reads, too": lambda x: (lambda y: (y, y.t(), (y.t() @ y).relu()))(x + 1),
    "views of the argument": lambda x: (x.t(), x[1:], x * 2),
    "the same computed twice": lambda x: (x * 2, x * 2),
    "changes in the program": lambda x: _changed(x * 2),
    "indices": lambda x: (lambda y: (y, y.view(-1, 1)))(x.argmax(1)),
    "what the CPU computes": lambda x: (lambda y: (y, y.t()))(x.double() * 2),
    "rounded where it leaves": lambda x: (lambda y: (y, y.t()))(x.bfloat16() * 2),
}


SIZED: dict[str, Callable[[Any], Any]] = {
    "second half": lambda x: x[x.shape[0] // 2 :],
    "halves": lambda x: x.chunk(2),
    "a row": lambda x: x[x.shape[0] // 2],
    "of a transpose": lambda x: x.t()[x.shape[1] // 2 :],
    "windows": lambda x: x.unfold(0, 2, 1)[x.shape[0] // 3 :],
    "beside a computed result": lambda x: (x[:, x.shape[1] // 2 :], x * 2),
    "of an intermediate that is shown": lambda x: (lambda y: (y, y[y.shape[0] // 2 :]))(x * 2),
    "of what the program changes": lambda x: (lambda y: (y.add_(1), y[y.shape[0] // 2 :]))(x * 2),
}


@pytest.mark.parametrize("is_training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", SIZED)
def test_views_that_begin_where_an_open_size_says_lie_there(name: str, is_training: bool, device: dml.Device) -> None:
    """Of arguments, too, whose views AOTAutograd makes by the place of the result: they were their first elements."""
    torch.compiler.reset()
    compiled = torch.compile(SIZED[name], backend="dmlvk", dynamic=True, options={"device": device})
    for shape in ((4, 4), (8, 6), (9, 3)):
        x = torch.randn(*shape, requires_grad=is_training)
        found, wanted = (torch.utils._pytree.tree_leaves(each(x)) for each in (compiled, SIZED[name]))
        _check(found, wanted, f"of {shape}")
        if name in ("second half", "a row", "of a transpose"):
            assert found[0].data_ptr() == wanted[0].data_ptr(), "the argument's own memory"


def test_an_argument_that_is_changed_is_so_in_a_view_of_it_that_is_a_result(device: dml.Device) -> None:
    torch.compiler.reset()

    def program(x: Any) -> Any:
        x.add_(1)
        return x[x.shape[0] // 2 :]

    compiled = torch.compile(program, backend="dmlvk", dynamic=True, options={"device": device})
    for rows in (4, 7, 8):
        x, other = torch.zeros(rows, 3), torch.zeros(rows, 3)
        _check([compiled(x), x], [program(other), other], f"of {rows}")


def _sharing(results: Sequence[Any]) -> list[tuple[int, ...]]:
    places = [result.untyped_storage().data_ptr() for result in results]
    return sorted({tuple(n for n, place in enumerate(places) if place == each) for each in places})


def _check(found: Sequence[Any], wanted: Sequence[Any], when: str) -> None:
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        place = f"result {number}, {when}"
        assert one.stride() == other.stride(), place
        torch.testing.assert_close(one.detach(), other.detach(), msg=lambda text, place=place: f"{place}: {text}")


@pytest.mark.parametrize("is_training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("is_open", [False, True], ids=["one size", "open sizes"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_changed_in_one_result_is_changed_in_those_that_share_its_memory(
    name: str, is_open: bool, is_training: bool, device: dml.Device
) -> None:
    if is_training and name == "a split":
        pytest.skip("autograd refuses changes of one of several views")
    torch.compiler.reset()
    torch.manual_seed(0)
    program = PROGRAMS[name]
    compiled = torch.compile(program, backend="dmlvk", dynamic=is_open, options={"device": device})
    with torch.set_grad_enabled(is_training):
        for rows in (4, 6, 9) if is_open else (4,):
            x = torch.randn(rows, 8, requires_grad=is_training)
            found, wanted = compiled(x), program(x)
            _check(found, wanted, f"{rows} rows")
            assert _sharing(found) == _sharing(wanted), f"{rows} rows"
            for number in range(len(wanted)):
                found[number].detach().add_(number + 1)
                wanted[number].detach().add_(number + 1)
                _check(found, wanted, f"{rows} rows, after a change of result {number}")


def test_a_view_that_was_changed_is_read_as_it_is_by_other_graphs(device: dml.Device) -> None:
    """What the device has of the tensor is not taken for it then, whichever of the views was changed."""
    torch.compiler.reset()

    def program(x: Any) -> tuple[Any, ...]:
        return _shown(x * 2)

    def reader(y: Any) -> Any:
        return torch.relu(y) + 1

    compiled, read = (torch.compile(each, backend="dmlvk", options={"device": device}) for each in (program, reader))
    with torch.no_grad():
        x = torch.randn(4, 8)
        found, wanted = compiled(x), program(x)
        for changed in range(len(wanted)):
            found[changed].mul_(-2)
            wanted[changed].mul_(-2)
            for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
                _check([read(one)], [reader(other)], f"{number} read after a change of {changed}")
