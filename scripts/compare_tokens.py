#!/usr/bin/env python3
"""Compare the likeliest tokens of a language model's folder by dmlvk and by ONNX Runtime's CPU provider.

    python scripts/compare_tokens.py FOLDER                 ten prompts, 64 tokens behind each
    python scripts/compare_tokens.py FOLDER --tokens 8 --prompts 2 --device llvmpipe

Where two tokens are so close that ONNX Runtime's own rounding decides between them, texts may part: the first place
where they do is shown with the two largest logits there.

Exit status: 0 all are the same, 1 some differ.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dmlvk.language import Conversation, LanguageModel, Sampling

PROMPTS = (
    "What is the capital of France?",
    "Name three colours.",
    "Write a short poem about the sea.",
    "How many legs does a spider have?",
    "Explain what a prime number is.",
    "Once upon a time, in a village by a river,",
    "Translate 'good morning' to German.",
    "What is 12 + 30?",
    "def fibonacci(n):",
    "List the planets from the sun outwards.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prompts", type=int, default=len(PROMPTS), help="how many of the ten")
    parser.add_argument("--tokens", type=int, default=64, help="behind each")
    parser.add_argument("--max-length", type=int, default=128, help="tokens that caches have room for")
    parser.add_argument("--device", help="as for dmlvk.Device")
    given = parser.parse_args(argv)
    different = 0
    with LanguageModel(given.folder, given.device, max_length=given.max_length) as model:
        reference = Reference(model)
        for prompt in PROMPTS[: given.prompts]:
            conversation = Conversation(model)
            conversation.messages.append({"role": "user", "content": prompt})
            tokens = model.encode(conversation.prompt())
            start = time.perf_counter()
            made = list(model.generate(tokens, Sampling(), most=given.tokens))
            seconds = time.perf_counter() - start
            expected, logits = reference.tokens(tokens, given.tokens)
            pairs = enumerate(zip([*made, None], [*expected, None], strict=False))
            index = next((index for index, (own, other) in pairs if own != other), None)
            print(f"{'same' if index is None else 'DIFFERENT'}: {len(made)} tokens in {seconds:.1f} s: {prompt!r}")
            if index is not None:
                different += 1
                largest = np.sort(logits[min(index, len(logits) - 1)])[-2:]
                print(f"  from place {index} on, where ONNX Runtime's largest logits are {largest}")
    print(f"{different} of {given.prompts} differ")
    return 1 if different else 0


class Reference:
    """The same model by ONNX Runtime.

    Args:
        model: the model, whose folder is read.
    """

    def __init__(self, model: LanguageModel) -> None:
        import onnxruntime

        self._folder = model.folder
        self._session: Any = onnxruntime.InferenceSession(model.folder.model, providers=["CPUExecutionProvider"])

    def tokens(self, tokens: Sequence[int], count: int) -> tuple[list[int], list[Any]]:
        """The likeliest tokens behind others, up to one that ends the text, and the logits that they come from."""
        folder, names = self._folder, self._folder.names
        outputs = [item.name for item in self._session.get_outputs()]
        inputs = {item.name: item for item in self._session.get_inputs()}
        layers = range(folder.layers)
        pairs = {names.past_key % layer: names.present_key % layer for layer in layers}
        pairs |= {names.past_value % layer: names.present_value % layer for layer in layers}
        data_type = np.float16 if inputs[names.past_key % 0].type == "tensor(float16)" else np.float32
        caches: dict[str, Any] = {
            past: np.zeros((1, folder.key_heads, 0, folder.head_size), data_type) for past in pairs
        }
        made: list[int] = []
        found: list[Any] = []
        new = list(tokens)
        while len(made) < count:
            total = len(tokens) + len(made)
            feed = {names.input_ids: np.array([new], np.int64), names.attention_mask: np.ones((1, total), np.int64)}
            if names.position_ids in inputs:
                feed[names.position_ids] = np.arange(total - len(new), total, dtype=np.int64)[None]
            results = dict(zip(outputs, self._session.run(None, {**feed, **caches}), strict=True))
            caches = {past: results[present] for past, present in pairs.items()}
            found.append(results[names.logits][0, -1].astype(np.float32))
            new = [int(found[-1].argmax())]
            if new[0] in folder.end_tokens:
                break
            made += new
        return made, found


if __name__ == "__main__":
    sys.exit(main())
