"""``dmlvk run model.onnx``: arrays or pictures in, arrays and a summary out."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.objects.profiling import write_trace
from dmlvk.support.files import check_regular, written_whole

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.onnx import InferenceSession, NodeArg

DEFAULT_ITERATIONS = 10  # Runs that --timing measures, where --iterations says nothing else
_SHOWN = 5


def run_onnx_model(
    model: Path,
    device: Device,
    given: Sequence[str],  # inputs, ``NAME=FILE``, or ``FILE`` for a model with one input
    output_dir: Path,
    *,
    iterations: int | None,  # how often to run it to measure times; ``None``: once, without
    trace: Path | None,  # where to write what the kernels took
) -> None:
    """Runs a model, writes its outputs as .npy files and says what is in them.

    Raises:
        DmlError, OSError: when something is missing or not valid.
    """
    try:
        from dmlvk.onnx import InferenceSession
    except ImportError as error:
        raise UnsupportedError(str(error)) from error
    start = time.perf_counter()
    with InferenceSession(model, device=device) as session:
        loaded = time.perf_counter() - start
        feed = _inputs(session, given)
        start = time.perf_counter()
        outputs = session.run(None, feed)
        first = time.perf_counter() - start
        hosted = [item for item in session.partition if item.place == "host"]
        for item in hosted:
            click.echo(f"on the host: node {item.node!r} ({item.op_type}): {item.reason}")
        output_dir.mkdir(parents=True, exist_ok=True)
        for argument, output in zip(session.get_outputs(), outputs, strict=True):
            _show_output(argument.name, output, output_dir)
        if iterations is not None:
            _show_times(session, feed, iterations, loaded, first)
        if trace is not None:
            write_trace(trace, session.profile(feed), device)
            click.echo(f"Kernel times written to '{trace}'")


def _inputs(session: InferenceSession, given: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    arguments = {argument.name: argument for argument in session.get_inputs()}
    files: dict[str, Path] = {}
    for text in given:
        name, separator, file = text.partition("=")
        if not separator:
            if len(arguments) != 1:
                raise InvalidArgumentError(f"--input {text}: give NAME=FILE; the inputs are {list(arguments)}")
            name, file = next(iter(arguments)), text
        if name not in arguments or name in files:
            raise InvalidArgumentError(f"--input {text}: must name each input once; they are {list(arguments)}")
        files[name] = Path(file)
    feed = {}
    for name, argument in arguments.items():
        array = _read(files[name], argument) if name in files else random_input(argument)
        source = f"'{files[name]}'" if name in files else "random numbers, the same every time"
        click.echo(f"input {name}: {argument.type} {list(array.shape)}: {source}")
        feed[name] = array
    return feed


def _read(path: Path, argument: NodeArg) -> npt.NDArray[Any]:
    from dmlvk.models import images

    if images.is_picture(path):
        found = images.picture_shape(path)
        sizes = [size if isinstance(size, int) and size > 0 else None for size in argument.shape]
        if len(sizes) != 4 or sizes[0] not in (1, None):
            raise InvalidArgumentError(
                f"{path}: a picture fits an input [1, C, H, W]; {argument.name} is {argument.shape}"
            )
        wanted = (1, sizes[1] or found.channels, sizes[2] or found.height, sizes[3] or found.width)
        shape = images.PictureShape.from_sizes(wanted)
        return images.read_picture(path, shape, _data_type(argument)).reshape(shape.sizes)
    try:
        check_regular(path)
        array = np.load(path, allow_pickle=False)
    except MemoryError:
        raise
    except Exception as error:  # the header is parsed as Python: a damaged one fails in many ways
        words = " ".join(str(error).split()) or type(error).__name__
        raise InvalidArgumentError(f"{path}: is no .npy file: {words}") from error
    if not isinstance(array, np.ndarray):
        raise InvalidArgumentError(f"{path}: holds several arrays; give a .npy file")
    return array


def _data_type(argument: NodeArg) -> Any:
    from dmlvk.datatypes import DataType

    return DataType.from_name(_numpy_type(argument).name.upper())


def _numpy_type(argument: NodeArg) -> np.dtype[Any]:
    name = argument.type.removeprefix("tensor(").removesuffix(")")
    names = {"float": "float32", "double": "float64"}
    try:
        return np.dtype(names.get(name, name))
    except TypeError:
        raise InvalidArgumentError(f"the input {argument.name!r} of {argument.type} must be given") from None


def random_input(argument: NodeArg) -> npt.NDArray[Any]:
    """Random numbers for an input, the same every time: of 0 to 1, integers 0 and 1; sizes that are open are 1.

    Raises:
        InvalidArgumentError: when the input is of no numbers.
    """
    dtype = _numpy_type(argument)
    shape = [size if isinstance(size, int) else 1 for size in argument.shape]
    generator = np.random.default_rng(0)
    if dtype.kind == "f":
        return generator.random(shape, np.float32).astype(dtype)
    return generator.integers(0, 2, shape).astype(dtype)


def _show_output(name: str, output: Any, output_dir: Path) -> None:
    if not isinstance(output, np.ndarray) or output.dtype.hasobject:
        click.echo(f"output {name}: {output!r}"[:400])
        return
    path = output_dir / (re.sub(r"[^\w.-]+", "_", name).lstrip(".") + ".npy")
    with written_whole(path) as file:
        np.save(file, output)
    text = f"output {name}: {output.dtype} {list(output.shape)}"
    if output.size and output.dtype.kind in "fiub":
        numbers = output.astype(np.float64)
        text += f", from {numbers.min():.6g} to {numbers.max():.6g}, mean {numbers.mean():.6g}"
    click.echo(f"{text}, in '{path}'")
    if output.dtype.kind == "f" and output.ndim in (1, 2, 4) and 2 <= output.size <= 100_000:
        rows = output.reshape(output.shape[0], -1) if output.ndim > 1 else output.reshape(1, -1)
        for row in rows[:_SHOWN]:
            largest = np.argsort(-row, kind="stable")[:_SHOWN]
            click.echo("  largest: " + ", ".join(f"[{index}] {row[index]:.4g}" for index in largest))


def _show_times(
    session: InferenceSession, feed: dict[str, npt.NDArray[Any]], iterations: int, loaded: float, first: float
) -> None:
    times = []
    for _ in range(iterations):
        start = time.perf_counter()
        session.run(None, feed)
        times.append(time.perf_counter() - start)
    later = statistics.median(times)
    click.echo(
        f"loaded in {loaded * 1e3:.1f} ms; first run {first * 1e3:.1f} ms; later ones {later * 1e3:.2f} ms "
        f"(median of {iterations}, from arrays to arrays)"
    )
