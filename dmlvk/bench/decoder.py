"""Times a decoder with random weights: prompts, and tokens one by one behind texts of several lengths."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dmlvk.bench.decoder_models import DecoderSize
from dmlvk.datatypes import DataType
from dmlvk.device import Device
from dmlvk.language.chain import StepChain, choice_part, counters, step_part
from dmlvk.language.sampling import Choices, Kind

_PROMPTS = 5  # Runs of a prompt, of which the median is taken, behind one that does not count

_NUMBERS = re.compile(r"(\(\d+ of \d+\))|\d+")
"""Of a kernel's label, by which it differs from those of other layers; which of a node's kernels it is stays."""

_WARM_UP = 4  # Tokens that do not count

_WARM_UP_SECONDS = 0.4
"""For which a GPU works before anything counts: an idle one has a fifth of its clock, and models take long to open."""

_OWN_MEMORY = re.compile(r"^RssAnon:\s+(\d+) kB", re.MULTILINE)
"""What Linux says in ``/proc/self/status`` of a process's memory, mapped files not counted."""


def own_bytes() -> int | None:
    """What the process has for itself on the host, its mapped files not counted; ``None``: the system does not say."""
    status = Path("/proc/self/status")
    own = _OWN_MEMORY.search(status.read_text(encoding="ascii")) if status.is_file() else None
    return None if own is None else int(own[1]) * 1024


@dataclasses.dataclass(frozen=True)
class MemoryUse:
    device_bytes: int  # of weights and whatever lies between kernels, without the caches of keys and values
    cache_bytes: int  # of these
    file_bytes: int  # of the model's files
    host_bytes: int | None  # of :func:`own_bytes`; the device's memory is among it where that is the host's

    @classmethod
    def of(cls, session: Any, file: Path, cache_bytes: int) -> MemoryUse:
        """What a session takes whose model is in a file and another one beside it with ``.data`` behind its name."""
        files = sum(path.stat().st_size for path in (file, file.with_name(f"{file.name}.data")))
        return cls(session.usage.device_bytes, cache_bytes, files, own_bytes())


@dataclasses.dataclass(frozen=True)
class TokenTimes:
    """What tokens took behind a text."""

    length: int  # tokens of the text
    seconds: float  # the median for a step, by the wall
    slowest: float  # what a step took that nine of ten did not exceed
    host_seconds: float  # the median of what the host takes to submit a step, while the device runs the one before
    device_seconds: float | None  # of the kernels of a step, by the device's clock; ``None``: it has none
    launches: int  # of kernels, in a step


class DecoderBench:
    """A decoder of :func:`dmlvk.bench.decoder_models.write_decoder` on a device."""

    def __init__(
        self,
        device: Device,
        file: Path,
        size: DecoderSize,
        capacity: int,  # tokens that the caches have room for
        batch: int = 1,
        data_type: DataType = DataType.FLOAT16,  # of everything but the weights
    ) -> None:
        from dmlvk.onnx import InferenceSession, OrtValue

        start = time.perf_counter()
        self._device, self._size, self._batch, self._data_type = device, size, batch, data_type
        self._file = file
        self.session = InferenceSession(file, device=device)
        self.loading_seconds = time.perf_counter() - start
        shape = (batch, size.key_heads, capacity, size.head)
        contents = np.random.default_rng(1).standard_normal(shape, np.float32).astype(data_type.numpy_dtype)
        self._caches = {
            f"{layer}.{part}": OrtValue.ortvalue_from_array(device.array(contents))
            for layer in range(size.layers)
            for part in ("key", "value")
        }

    def memory(self) -> MemoryUse:
        caches = sum(cache.tensor_size_in_bytes() for cache in self._caches.values())
        return MemoryUse.of(self.session, self._file, caches)

    def close(self) -> None:
        """Frees what lies on the device."""
        self._caches = {}
        self.session.close()

    def _feed(self, tokens: Sequence[int], past: int) -> dict[str, Any]:
        mask = np.ones((self._batch, past + len(tokens)), np.int64)
        return {"input_ids": np.tile(np.array(tokens, np.int64), (self._batch, 1)), "attention_mask": mask}

    def run(self, tokens: Sequence[int], past: int = 0) -> Any:
        """The logits behind tokens (those of every sequence), as an array on the device.

        Args:
            past: how many tokens of the caches stand before.
        """
        binding = self.session.io_binding()
        for name, array in self._feed(tokens, past).items():
            binding.bind_cpu_input(name, array)
        binding.bind_output("logits", "dml")
        for name, cache in self._caches.items():
            binding.bind_ortvalue_input(f"past_key_values.{name}", cache)
            binding.bind_ortvalue_output(f"present.{name}", cache)
        binding.run()
        return binding.get_outputs()[0].array()

    def prompt(self, count: int) -> tuple[float, float]:
        """What so many tokens take without a text before them: the first time, and in the median; in seconds."""
        tokens = self._some_tokens(count)
        taken = []
        for _ in range(_PROMPTS + 1):
            start = time.perf_counter()
            self.run(tokens).wait()
            taken.append(time.perf_counter() - start)
            if len(taken) == 1:
                self._warm_up(tokens)
        return taken[0], float(np.median(taken[1:]))

    def _some_tokens(self, count: int) -> list[int]:
        return [int(token) for token in np.random.default_rng(2).integers(0, self._size.vocabulary, count)]

    def _warm_up(self, tokens: Sequence[int], past: int = 0) -> None:
        end = time.perf_counter() + _WARM_UP_SECONDS
        while self._device.info.kind != "CPU" and time.perf_counter() < end:
            self.run(tokens, past).wait()

    def _chain(self, past: int, *, timestamps: bool = False) -> StepChain:
        caches = {f"past_key_values.{name}": cache for name, cache in self._caches.items()}
        present = {f"present.{name}": cache for name, cache in self._caches.items()}
        now = self.session.standing_step({**self._feed([1], past), **caches}, present)
        then = None if now is None else now.again(self._feed([1], past + 1))
        growing = None if now is None or then is None else counters(now.given, then, "input_ids")
        assert now is not None and growing is not None  # the model is one whose steps are all the same
        choices = Choices(self._device, self._size.vocabulary, self._data_type)
        chooser = choices.chooser(Kind(self._batch), {name: now.given[name] for name in growing})
        parts = (
            step_part(self._device, choices.memory, now, "input_ids", chooser, timestamps=timestamps),
            choice_part(self._device, choices.memory, now, "logits", chooser, timestamps=timestamps),
        )
        return StepChain(choices, now, "input_ids", chooser, parts, [1] * self._batch, {})

    def tokens(self, length: int, count: int) -> TokenTimes:
        """What tokens take, each the likeliest behind those before, submitted while the one before is computed.

        Args:
            length: tokens of the text before.
            count: how many medians are taken of.
        """
        chain = self._chain(length)
        self._warm_up([1], length)
        chain.submit()
        ends, hosts = [], []
        for _ in range(count + _WARM_UP):
            start = time.perf_counter()
            chain.submit()
            hosts.append(time.perf_counter() - start)
            chain.tokens()
            ends.append(time.perf_counter())
        chain.tokens()
        taken = np.diff(ends)[_WARM_UP - 1 :]
        kernels = self.kernels(length)
        device_seconds = sum(seconds for seconds, _ in kernels.values()) if kernels else None
        return TokenTimes(
            length,
            float(np.median(taken)),
            float(np.quantile(taken, 0.9)),
            float(np.median(hosts[_WARM_UP:])),
            device_seconds,
            chain.launch_count,
        )

    def kernels(self, length: int) -> dict[str, tuple[float, int]]:
        """What each kind of kernel takes in a step behind a text, and how many of it there are; slowest first."""
        if not self._device.info.limits.timestamp_valid_bits:
            return {}
        chain = self._chain(length, timestamps=True)
        for _ in range(2):
            chain.submit()
            chain.tokens()
        found: dict[str, tuple[float, int]] = {}
        for kernel in chain.kernel_times():
            label = _NUMBERS.sub(lambda found: found[1] or "N", re.sub(r"layer\.\d+\.", "", kernel.label))
            seconds, launches = found.get(label, (0.0, 0))
            found[label] = seconds + kernel.seconds, launches + 1
        return dict(sorted(found.items(), key=lambda item: -item[1][0]))

    def hashed_logits(self, steps: int, chunks: Sequence[int]) -> str:
        """A hash of the logits of steps behind a prompt, each with the likeliest token of the one before.

        Args:
            chunks: how many tokens of the prompt are run at once, and then at once, and so on.
        """
        tokens, past = self._some_tokens(sum(chunks)), 0
        for count in chunks:
            logits = self.run(tokens[past : past + count], past)
            past += count
        found = hashlib.sha256()
        for _ in range(steps):
            rows = logits.numpy()[:, -1]
            if any(row.tobytes() != rows[0].tobytes() for row in rows):
                return "sequences of the batch differ"
            found.update(rows[0].tobytes())
            logits = self.run([int(rows[0].argmax())], past)
            past += 1
        return found.hexdigest()[:16]
