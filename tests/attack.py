"""Attacks dmlvk for a while: ``python -m tests.attack --seconds 60``.

Mutated ONNX models (by dmlvk's sessions and by ONNX Runtime's with dmlvk's provider), DxDispatch files, .npy and GGUF
files, folders of language models, descriptions of every operator, graphs, random models with open sizes, random
decoders, arrays of Dask's, programs of PyTorch's, options of the command line and kernel caches; interrupts; sessions
that come, go, are shared by threads and closed in the middle; asyncio. Every case has a seed, 4 GB of memory and 30
seconds (more where others use the machine), and may end in a result or in one of dmlvk's errors: another exception, a
crash, a hang or a callback that never comes is a fault, which is shown with the words that repeat it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import hashlib
import importlib
import itertools
import json
import logging
import os
import queue
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.models import load_model, run_model
from dmlvk.support import faults as support_faults
from tests.attack_dask import dask_array
from tests.attack_frameworks import provider, torch_device, torch_program, torch_values, torch_weights
from tests.attack_inputs import (
    command_line,
    contradicting_caches,
    deciding_contents,
    decoder,
    description,
    graph,
    language_model,
    open_sizes,
)
from tests.damage import damage_bytes, damage_value
from tests.onnx.models import two_branches
from tests.onnx.mutations import try_damaged

MOST_BYTES = 4 * 2**30
MOST_SECONDS = 30
_HERE = Path(__file__).parent
_MODELS = [*sorted((_HERE.parent / "examples").glob("*.json")), _HERE / "models" / "everything.json"]
_MOST_OF_MODELS = 2**28
_FEED = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2.5, 3, 4, 16, 255, 65536, 2**31, 2**32, 2**32 - 4, 2**63, 2**64, 10**400, 1e308),
    *(-0.0, "", "A", "nan", "-inf", "FLOAT16", "UINT8", "INT64", "UNKNOWN", "ELEMENT_WISE_SIGN", "deferred", "d.npy"),
    *("/", "..", "a\0b", "x.png", "x.npy", [], {}, [[]], [1, 2], [4, 0], {"valueCount": 2**32 - 1, "value": 0}),
    {"sourcePath": "p.png"},
)

Attack = Callable[[int, dml.Device], str]


def onnx_model(seed: int, device: dml.Device) -> str:
    """A damaged model is loaded and run."""
    return try_damaged(seed, device)


def json_model(seed: int, device: dml.Device) -> str:
    """A DxDispatch file with other bytes or other values is loaded and run, or refused by file, line and column."""
    choose = random.Random(seed)
    text = choose.choice(_MODELS).read_bytes()
    if choose.random() < 0.6:
        content = json.loads(_MODELS[-1].read_bytes())  # others have comments
        for _ in range(choose.randint(1, 3)):
            damage_value(content, choose, _VALUES)
        text = json.dumps(content).encode()
    else:
        data = bytearray(text)
        for _ in range(choose.randint(1, 3)):
            damage_bytes(data, choose.randrange(len(data)), choose)
        text = bytes(data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        path.write_bytes(text)
        np.save(path.with_name("d.npy"), np.array([[0, 1], [2, 255]], np.uint8))
        path.with_name("p.png").write_bytes(b"no picture")
        try:
            model = load_model(path)
            if sum(resource.size_in_bytes for resource in model.resources.values()) > _MOST_OF_MODELS:
                return "loads"  # which took no memory; running it would, and on a large GPU succeed
            run_model(model, device, Path(folder) / "output", lambda line: None)
        except dml.ModelFileError as error:
            line, column = str(error).removeprefix(f"{path}:").split(":")[:2]
            assert int(line) >= 1 and int(column) >= 1, error
            raise
    return "runs"


def npy_file(seed: int, device: dml.Device) -> str:
    """A damaged .npy file is an input of a model file, and an array of Dask's."""
    from dmlvk.dask import from_npy

    choose = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.npy"
        np.save(path, np.arange(choose.randrange(64), dtype=choose.choice(("f4", "i8", "f2", "u1"))))
        contents = bytearray(path.read_bytes())
        for _ in range(choose.randint(1, 4)):
            offset = choose.randrange(len(contents))
            more = bytes(choose.randrange(256) for _ in range(choose.randrange(3)))
            contents[offset : offset + choose.randrange(3)] = more
        length = choose.choice((0, 5, 20, len(contents))) if choose.random() < 0.3 else len(contents)
        path.write_bytes(contents[:length])
        with contextlib.suppress(dml.DmlError):
            from_npy(path, chunks=-1).compute(scheduler="sync")
        with contextlib.suppress(dml.DmlError):
            _filled_from(path, device)
    return "runs"


def _filled_from(path: Path, device: dml.Device) -> None:
    tensor = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 8]}
    desc = {"InputTensor": tensor, "OutputTensor": tensor}
    filled = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": path.name}}
    zeros = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 8, "value": 0}}
    bindings = {"InputTensor": "a", "OutputTensor": "b"}
    document = {
        "resources": {"a": filled, "b": zeros},
        "dispatchables": {"d": {"type": "DML_OPERATOR_ELEMENT_WISE_ABS", "desc": desc}},
        "commands": [{"type": "dispatch", "dispatchable": "d", "bindings": bindings}],
    }
    model = path.with_name("model.json")
    model.write_text(json.dumps(document), encoding="utf-8")
    run_model(load_model(model), device, path.parent / "output", lambda line: None)


def kernel_cache(seed: int, device: dml.Device) -> str:
    """A process starts with a damaged cache of kernels, and computes what it must."""
    choose = random.Random(seed)
    script = (
        "import numpy as np, dmlvk as d, dmlvk.functions as F\n"
        "with d.Device() as v:\n g = d.Graph(v); x = g.input('x', d.FLOAT32, (8,))\n"
        " y = v.run(g.compile(y=F.max(abs(x) - 1, x)), {'x': np.arange(8, dtype='f4')})['y']\n"
        "assert (y == np.arange(8)).all()\n"
    )
    cache = Path(tempfile.gettempdir()) / f"dmlvk-attack-{os.getuid()}" / "cache"
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    for _ in range(2):
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"with a damaged cache: {done.stderr[-250:]}"
        for path in [path for path in cache.rglob("*") if path.is_file() and choose.random() < 0.5]:
            contents = bytearray(path.read_bytes())
            if contents and choose.random() < 0.7:
                contents[choose.randrange(len(contents))] ^= 1 << choose.randrange(8)
            if choose.random() < 0.5:  # what anybody can compute
                contents[:32] = hashlib.sha256(path.stem.encode() + contents[32:]).digest()
            path.write_bytes(contents[: choose.randrange(len(contents) + 1)] if choose.random() < 0.3 else contents)
    return "runs"


class _Interrupted(BaseException):
    """Like KeyboardInterrupt no Exception."""


def interrupts(seed: int, device: dml.Device) -> str:
    """A signal whose handler raises, anywhere while a model is loaded and run; afterwards everything works."""
    choose = random.Random(seed)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _Interrupted

    before = signal.signal(signal.SIGALRM, stop)
    outcome = "runs"
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, choose.uniform(1e-4, 5e-2))
            for _ in range(5):
                ort.InferenceSession(two_branches(), device=device).run(None, _FEED)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Interrupted:
        outcome = "interrupted"
    finally:
        signal.signal(signal.SIGALRM, before)
    y, _ = ort.InferenceSession(two_branches(), device=device).run(None, _FEED)
    np.testing.assert_array_equal(y, np.maximum(_FEED["x"] + [1, -2, 3], 0).reshape(3, 2))
    return outcome


def life_cycle(seed: int, device: dml.Device) -> str:
    """Sessions of all kinds are made, run by threads, closed in the middle, dropped and used afterwards."""
    choose = random.Random(seed)
    options = ort.SessionOptions()
    options.shares_device = choose.random() < 0.8
    session = ort.InferenceSession(two_branches(), options, device=choose.choice((device, None)))
    faults: list[BaseException] = []

    def work(delay: float, session: ort.InferenceSession) -> None:
        try:
            time.sleep(delay)
            for rows in range(1, 6):
                session.run(None, {"x": np.ones((rows, 3), np.float32)})
        except dml.DeviceRemovedError:
            pass
        except BaseException as error:  # noqa: BLE001  # whatever it is, it is shown
            faults.append(error)

    threads = [threading.Thread(target=work, args=(choose.uniform(0, 0.01), session)) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(choose.uniform(0, 0.05))
    if choose.random() < 0.7:
        session.close()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    if choose.random() < 0.5:
        session.close()
        with contextlib.suppress(dml.DeviceRemovedError):
            session.run(None, _FEED)
            raise AssertionError("a closed session runs")
    del session, threads
    gc.collect()
    return "runs"


def asynchronous(seed: int, device: dml.Device) -> str:
    """Coroutines wait for runs, right and wrong ones; every callback comes."""
    choose = random.Random(seed)
    session = ort.InferenceSession(two_branches(), device=device)
    feeds: list[Any] = [_FEED, {}, {"x": "text"}, None, {"x": np.ones((2, 4))}]

    async def one(feed: Any) -> str:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        session.run_async(
            None, feed, lambda outputs, data, message: loop.call_soon_threadsafe(future.set_result, message)
        )
        return await asyncio.wait_for(future, MOST_SECONDS)

    async def several() -> list[str]:
        chosen = [choose.choice(feeds) for _ in range(8)]
        messages = await asyncio.gather(*(one(feed) for feed in chosen))
        for message, feed in zip(messages, chosen, strict=True):
            assert bool(message) == (feed is not _FEED), f"{feed!r}: {message!r}"
        return messages

    asyncio.run(several())
    return "runs"


ATTACKS: tuple[tuple[Attack, int], ...] = (
    *((onnx_model, 60), (description, 25), (graph, 15), (open_sizes, 4), (decoder, 4), (contradicting_caches, 4)),
    (deciding_contents, 6),
    *((dask_array, 10), (provider, 10), (language_model, 2), (command_line, 8), (json_model, 20), (npy_file, 10)),
    *((interrupts, 6), (life_cycle, 5), (asynchronous, 4), (kernel_cache, 1)),
)


_OF_TORCH: tuple[Attack, ...] = (torch_device, torch_program, torch_values, torch_weights)

BY_NAME: dict[str, Attack] = {attack.__name__: attack for attack in (*(attack for attack, _ in ATTACKS), *_OF_TORCH)}
"""Those that ``--only`` takes; those of PyTorch need what is not everywhere, and are not among the others."""


def cases(first: int, only: str | None) -> Iterator[tuple[Attack, int]]:
    """Attacks with their seeds, the same ones every time; of one kind alone each seed."""
    kinds, weights = zip(*([(BY_NAME[only], 1)] if only else ATTACKS), strict=True)
    for seed in itertools.count(first):
        yield random.Random(seed).choices(kinds, weights)[0], seed


def tried(attack: Attack, seed: int, device: dml.Device) -> str:
    """How a case ended; a fault begins with ``WRONG``."""
    try:
        return attack(seed, device)
    except dml.DmlError as error:
        return type(error).__name__ if str(error) else "WRONG: an error without a message"
    except BaseException as error:  # noqa: BLE001  # that is what is sought
        return f"WRONG {type(error).__name__}: {' '.join(str(error).split())[:300]}"


def work(first: int, only: str | None, end: float) -> None:
    """Tries one case after the other; says each before and after, for whoever watches."""
    there = _mapped_by_torch() if only and BY_NAME[only] in _OF_TORCH else 0
    resource.setrlimit(resource.RLIMIT_AS, (there + MOST_BYTES, there + MOST_BYTES))
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    support_faults.raise_all()
    with dml.Device() as device:
        for attack, seed in cases(first, only):
            print(f"begin {attack.__name__} {seed}", flush=True)
            print(f"end {tried(attack, seed, device)}", flush=True)
            if time.time() >= end:
                return


def _mapped_by_torch() -> int:
    """Bytes of addresses that PyTorch takes for its libraries, 4 GB in its build for CUDA, used or not."""
    importlib.import_module("torch")
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()


def watched(first: int, only: str | None, end: float, say: Callable[[str], None]) -> tuple[dict[str, int], int]:
    """Watches a process that works; starts another one where it dies or hangs. Outcomes, and the number of faults."""
    counts: dict[str, int] = {}
    faults = 0
    while time.time() < end:
        arguments = [sys.executable, "-m", "tests.attack", "--work", str(first), str(end), *([only] if only else [])]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        lines: queue.Queue[str | None] = queue.Queue()
        assert process.stdout is not None  # it is a pipe
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        case, outcome = "start 0", "WRONG: never began"
        while True:
            limit = (2 * MOST_SECONDS if case == "start 0" else MOST_SECONDS + 5) * _crowding()
            try:
                line = lines.get(timeout=limit)
            except queue.Empty:
                process.kill()
                outcome = f"WRONG: hangs for {limit:.0f} s"
                break
            if line is None:
                break
            word, _, rest = line.strip().partition(" ")
            if word == "begin":
                case, outcome = rest, "WRONG: the process died"
            elif word == "end":
                outcome = rest
                first = int(case.split()[1]) + 1
                key = f"{case.split()[0]}: {rest.split(':')[0]}"
                counts[key] = counts.get(key, 0) + 1
                if rest.startswith("WRONG"):
                    faults += 1
                    say(f"{case}: {rest}")
        status = process.wait()
        if outcome.startswith("WRONG: ") and not outcome.startswith("WRONG: an error"):
            faults += 1
            say(f"{case}: {outcome} (status {status})")
            first = int(case.split()[1]) + 1
            if case == "start 0":
                break
    return counts, faults


def _crowding() -> float:
    """How many times as long work takes that others share the machine with, and have twice its share of."""
    return max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))


def _read(stream: Any, lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def main() -> int:
    """Attacks; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", choices=list(BY_NAME))
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        first, end, *only = options.work
        work(int(first), only[0] if only else None, float(end))
        return 0
    counts, faults = watched(options.first, options.only, time.time() + options.seconds, print)
    for key in sorted(counts):
        print(f"{counts[key]:6} {key}")
    print(f"{sum(counts.values())} cases, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
