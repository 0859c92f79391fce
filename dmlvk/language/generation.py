"""A decoder that is run token by token: caches that stay on the device, and the tokens that it gives."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.datatypes import DataType
from dmlvk.errors import DeviceLimitError, InvalidArgumentError, ModelFileError, UnsupportedError
from dmlvk.language.chain import StepChain, counters
from dmlvk.language.folder import ModelFolder
from dmlvk.language.sampling import Sampler, Sampling

if TYPE_CHECKING:
    from dmlvk.arrays.device_array import Array
    from dmlvk.device import Device
    from dmlvk.onnx import NodeArg, OrtValue

CHUNKS = (512, 128, 32, 8)
"""Tokens of a prompt that are run at once: few sizes, so that prompts of any length need few plans. The bits of a text
do not depend on how it is divided."""

_FEWEST_CHAINED = 4
"""Tokens for which steps are recorded one behind the other."""


class LanguageModel:
    """A folder's model on a device, with the caches of one text.

    Attributes:
        folder: what its files say.
        tokenizer: of the package ``tokenizers``.
        max_length: tokens that there is room for.
        length: tokens in the caches.
        generated: tokens that the last text was given by :meth:`generate`, the one that ended it not among them.

    Args:
        path: the folder (:class:`ModelFolder` says what must be there).
        device: where to run: a device, which stays open, or what ``dmlvk.Device`` takes to choose one.
        max_length: tokens that there is room for; ``None``: what the folder wants.
        arithmetic: as for ``dmlvk.Device``.

    Raises:
        ModelFileError, UnsupportedError: the folder is not one, or its model is another than its configuration says.
        InvalidArgumentError: max_length is below 1, or more than the model can look back at.
        DeviceLimitError, OutOfMemoryError: the device cannot have it.
    """

    def __init__(
        self,
        path: Path | str,
        device: Device | int | str | None = None,
        *,
        max_length: int | None = None,
        arithmetic: str | None = None,
    ) -> None:
        self.folder = ModelFolder.read(path)
        self.tokenizer = _tokenizer(self.folder)
        self.max_length = self.folder.max_length if max_length is None else max_length
        if not isinstance(self.max_length, int) or not 1 <= self.max_length <= self.folder.context_length:
            raise InvalidArgumentError(
                f"{self.folder.path}: max_length must be from 1 to {self.folder.context_length}; got {max_length!r}"
            )
        onnx = _onnx()
        options = {} if arithmetic is None else {"arithmetic": arithmetic}
        self._session = onnx.InferenceSession(self.folder.model, device=device, **options)
        try:
            self._inputs = {item.name: item for item in self._session.get_inputs()}
            self._data_type = self._checked()
            self._caches = self._new_caches()
        except BaseException:
            self._session.close()
            raise
        self.length = 0
        self.generated = 0
        self._tokens: list[int] = []
        self._chain: tuple[object, StepChain] | None = None

    def __enter__(self) -> LanguageModel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Frees what lies on the device."""
        self._chain = None
        self._caches = {}
        self._session.close()

    @property
    def device(self) -> Device:
        """Where it runs."""
        device: Device = self._session.device
        return device

    def encode(self, text: str) -> list[int]:
        """A text's tokens; those that stand for no text are found by their names.

        Raises:
            InvalidArgumentError: it holds what is no character, as bytes that are no UTF-8 become.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                f"{self.folder.path}: the text has {text[error.start]!a} at place {error.start}, which is no character"
            ) from error
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without those that stand for none."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def logits(self, tokens: Sequence[int]) -> Array:
        """Runs tokens behind those that are in the caches; where it raises, the next call goes on behind the same ones.

        Returns:
            The logits behind the last one, on the device: [1, vocabulary].

        Raises:
            InvalidArgumentError: there are none, there is no room for them, or one is not in the vocabulary.
            DmlError: the device cannot do it.
        """
        checked = self._checked_tokens(tokens)
        *before, last = checked
        start = self.length
        try:
            while before:
                count = next((size for size in CHUNKS if size <= len(before)), len(before))
                self._run_before(before[:count])
                del before[:count]
            made = self._step(np.array([[last]], np.int64), 1)
            self._tokens.append(last)
        except BaseException:  # an interrupt, too: whoever tries again means behind the same tokens
            self.length = start
            del self._tokens[start:]
            raise
        return made

    def _run_before(self, tokens: list[int]) -> None:
        """Runs tokens whose logits nobody wants; fewer than the least chunk together with some that do not count.

        What these leave in the caches behind the length is written over.
        """
        filled = [*tokens, *[0] * (CHUNKS[-1] - len(tokens))]
        if self.length + len(filled) > self.max_length:
            filled = tokens
        self._run(np.array([filled], np.int64), len(filled), [])
        self.length += len(tokens) - len(filled)
        self._tokens += tokens

    def keep(self, tokens: Sequence[int]) -> int:
        """Forgets all in the caches but what they have in common with these tokens from the first one on.

        Returns:
            How many that are: at most all but the last one, which then can be run again for its logits.
        """
        same = 0
        for own, wanted in zip(self._tokens, tokens, strict=False):
            if own != wanted:
                break
            same += 1
        self.length = min(same, max(len(tokens) - 1, 0))
        del self._tokens[self.length :]
        return self.length

    def generate(
        self, tokens: Sequence[int], sampling: Sampling | None = None, *, most: int | None = None
    ) -> Iterator[int]:
        """Tokens behind a prompt, until one that ends the text, or until there is no more room.

        The next token is computed while the one before is looked at, and takes its input from it on the device.

        Args:
            tokens: the whole text so far; what the caches have of it already is not computed again.
            sampling: how tokens are chosen; ``None``: as the folder wants.
            most: how many tokens at most.

        Raises:
            InvalidArgumentError: as :meth:`logits`.
        """
        checked = self._checked_tokens(tokens, whole=True)
        start = self.keep(checked)
        sampler = Sampler(self.device, self.folder.vocabulary, self._data_type, sampling or self.folder.sampling)
        sampler.note(checked)
        room = self.max_length - len(checked) + 1
        left = room if most is None else min(most, room)
        self.generated = 0
        if left < 1:
            return
        token = int(sampler.token(self.logits(checked[start:])).item())
        sampler.note([token])
        chain = None if left < _FEWEST_CHAINED else self._chain_for(sampler, token, self.length + left - 2)
        yield from self._stepped(sampler, token, left) if chain is None else self._chained(chain, token, left)

    def _stepped(self, sampler: Sampler, token: int, left: int) -> Iterator[int]:
        """A token and those behind it, one after the other."""
        while token not in self.folder.end_tokens:
            self.generated, left = self.generated + 1, left - 1
            yield token
            if not left:
                return
            following = sampler.token(self._step(np.array([[token]], np.int64), 1))
            self._tokens.append(token)
            token = int(following.item())
            sampler.note([token])

    def _chained(self, chain: StepChain, token: int, left: int) -> Iterator[int]:
        """The same while the device goes on: a step is submitted before the token of the one before it is known."""
        submitted = done = 0
        while token not in self.folder.end_tokens:
            self.generated, left = self.generated + 1, left - 1
            if left:
                done += 1
                while submitted < done + (left > 1):
                    chain.submit()
                    submitted += 1
                self._tokens.append(token)
                self.length = len(self._tokens)
            yield token
            if not left:
                return
            token = chain.token()

    def _chain_for(self, sampler: Sampler, token: int, last: int) -> StepChain | None:
        """Steps that follow one another on the device, begun with a token; ``None`` where a step depends on more.

        Args:
            sampler: chooses tokens.
            token: the first one.
            last: the tokens that stand before the last step at most.
        """
        pasts = (self.length, self.length + 1, last)
        feeds = [self._feed(np.array([[token]], np.int64), 1, past) for past in pasts]
        of_caches = {past: cache for (past, _), cache in self._caches.items()}
        caches = {present: cache for (_, present), cache in self._caches.items()}
        now, then, at_last = (self._session.standing_step({**feed, **of_caches}, caches) for feed in feeds)
        if now is None or then is None or at_last is None or at_last.compiled is not now.compiled:
            return None  # from some length on another branch may be taken
        names = self.folder.names
        growing = counters(now, then, names.input_ids)
        if growing is None:
            return None
        key = now.compiled, dataclasses.replace(sampler.sampling, seed=0)
        if self._chain is None or self._chain[0] != key:
            chooser = sampler.chooser({name: now.given[name] for name in growing})
            self._chain = key, StepChain(self.device, now, names.input_ids, names.logits, chooser)
        chain = self._chain[1]
        chain.start(now, token, sampler.state)
        return chain

    def _step(self, tokens: Any, count: int) -> Array:
        """Runs one chunk of tokens; the logits behind it."""
        (found,) = self._run(tokens, count, [self.folder.names.logits])
        logits: Array | None = found.array()
        if logits is None:
            raise UnsupportedError(f"{self.folder.model}: its logits are computed on the host")
        return logits[:, -1, :]

    def _run(self, tokens: Any, count: int, wanted: Sequence[str]) -> list[OrtValue]:
        """Runs one chunk of tokens, of the host or an array on the device; the outputs that are wanted."""
        feed = self._feed(tokens, count, self.length)
        binding = self._session.io_binding()
        for name, value in feed.items():
            if isinstance(value, np.ndarray):
                binding.bind_cpu_input(name, value)
            else:
                binding.bind_ortvalue_input(name, _onnx().OrtValue.ortvalue_from_array(value))
        for name in wanted:
            binding.bind_output(name, "dml")
        for (past, present), cache in self._caches.items():
            binding.bind_ortvalue_input(past, cache)
            binding.bind_ortvalue_output(present, cache)
        binding.run()
        self.length += count
        return list(binding.get_outputs()[: len(wanted)])

    def _feed(self, tokens: Any, count: int, past: int) -> dict[str, Any]:
        """The inputs of so many tokens behind others, but for the caches."""
        names, total = self.folder.names, past + count
        feed: dict[str, Any] = {names.input_ids: tokens, names.attention_mask: np.ones((1, total), np.int64)}
        if names.position_ids in self._inputs:
            feed[names.position_ids] = np.arange(past, total, dtype=np.int64)[None]
        return feed

    def _checked_tokens(self, tokens: Sequence[int], *, whole: bool = False) -> list[int]:
        checked = [int(token) for token in tokens]
        before = 0 if whole else self.length
        if not checked:
            raise InvalidArgumentError(f"{self.folder.path}: a text of no tokens has no next one")
        if before + len(checked) > self.max_length:
            raise InvalidArgumentError(
                f"{self.folder.path}: {before + len(checked)} tokens, but there is room for {self.max_length}"
            )
        strange = next((token for token in checked if not 0 <= token < self.folder.vocabulary), None)
        if strange is not None:
            raise InvalidArgumentError(
                f"{self.folder.path}: the token {strange} is none of the vocabulary's {self.folder.vocabulary}"
            )
        return checked

    def _checked(self) -> DataType:
        """Looks whether the model is what its configuration says; the type of its logits."""
        folder = self.folder
        outputs = {item.name: item for item in self._session.get_outputs()}
        if 2 * folder.layers > len(self._inputs):
            raise ModelFileError(
                f"{folder.model}: has {len(self._inputs)} inputs; genai_config.json says {folder.layers} layers, each "
                "with two caches"
            )
        needed = [folder.names.input_ids, *(past for past, _ in self._cache_names())]
        for name in needed:
            if name not in self._inputs:
                raise ModelFileError(f"{folder.model}: has no input {name!r}, which genai_config.json names")
        for name in (folder.names.logits, *(present for _, present in self._cache_names())):
            if name not in outputs:
                raise ModelFileError(f"{folder.model}: has no output {name!r}, which genai_config.json names")
        logits = outputs[folder.names.logits]
        if logits.shape and isinstance(logits.shape[-1], int) and logits.shape[-1] != folder.vocabulary:
            raise ModelFileError(
                f"{folder.model}: its logits are {logits.shape[-1]}; genai_config.json says {folder.vocabulary}"
            )
        return _float_type(folder.model, logits)

    def _new_caches(self) -> dict[tuple[str, str], OrtValue]:
        """A cache of the greatest length for keys and values of each layer, which is its own past and present."""
        folder = self.folder
        shape = (1, folder.key_heads, max(self.max_length, folder.window), folder.head_size)
        rows, most = shape[2], self.device.info.limits.largest_buffer
        size = math.prod(shape) * max(
            _float_type(folder.model, self._inputs[p]).size_in_bytes for p, _ in self._cache_names()
        )
        if size > most:
            raise DeviceLimitError(
                f"{folder.path}: a cache for {rows} tokens has {size} bytes; a buffer of {self.device.info.name} has "
                f"at most {most}: give a max_length of at most {most * rows // size}"
            )
        made: dict[tuple[str, str], OrtValue] = {}
        for past, present in self._cache_names():
            argument = self._inputs[past]
            for got, wanted in zip(argument.shape, shape, strict=False):
                if len(argument.shape) != len(shape) or (isinstance(got, int) and got != wanted):
                    raise ModelFileError(
                        f"{folder.model}: the cache {past!r} is {argument.shape}; genai_config.json says {list(shape)}"
                    )
            array = self.device.array(np.zeros(shape, _float_type(folder.model, argument).numpy_dtype))
            made[past, present] = _onnx().OrtValue.ortvalue_from_array(array)
        return made

    def _cache_names(self) -> list[tuple[str, str]]:
        names = self.folder.names
        return [
            (past % layer, present % layer)
            for layer in range(self.folder.layers)
            for past, present in ((names.past_key, names.present_key), (names.past_value, names.present_value))
        ]


def _float_type(model: Path, argument: NodeArg) -> DataType:
    types = {"tensor(float)": DataType.FLOAT32, "tensor(float16)": DataType.FLOAT16}
    if argument.type not in types:
        raise UnsupportedError(f"{model}: {argument.name!r} is a {argument.type}; {', '.join(types)} are run")
    return types[argument.type]


def _onnx() -> Any:
    try:
        import dmlvk.onnx
    except ImportError as error:
        raise UnsupportedError(f"language models need the extra chat: pip install dmlvk[chat] ({error})") from error
    return dmlvk.onnx


def _tokenizer(folder: ModelFolder) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise UnsupportedError(f"language models need the extra chat: pip install dmlvk[chat] ({error})") from error
    try:
        return Tokenizer.from_file(str(folder.tokenizer))
    except Exception as error:  # the package raises nothing more special
        raise ModelFileError(f"{folder.tokenizer}: is no tokenizer: {' '.join(str(error).split())[:300]}") from error


__all__ = ["LanguageModel"]
