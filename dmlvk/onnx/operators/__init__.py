"""The translators, by family; importing them registers them."""

from dmlvk.onnx.operators import activation as activation
from dmlvk.onnx.operators import attention as attention
from dmlvk.onnx.operators import contrib_attention as contrib_attention
from dmlvk.onnx.operators import convolution as convolution
from dmlvk.onnx.operators import einsum as einsum
from dmlvk.onnx.operators import elementwise as elementwise
from dmlvk.onnx.operators import embedding as embedding
from dmlvk.onnx.operators import fourier as fourier
from dmlvk.onnx.operators import fused as fused
from dmlvk.onnx.operators import grid_sampling as grid_sampling
from dmlvk.onnx.operators import group_query as group_query
from dmlvk.onnx.operators import joined as joined
from dmlvk.onnx.operators import masked_heads as masked_heads
from dmlvk.onnx.operators import matrix as matrix
from dmlvk.onnx.operators import movement as movement
from dmlvk.onnx.operators import normalization as normalization
from dmlvk.onnx.operators import pooling as pooling
from dmlvk.onnx.operators import quantization as quantization
from dmlvk.onnx.operators import quantized as quantized
from dmlvk.onnx.operators import recurrent as recurrent
from dmlvk.onnx.operators import reduction as reduction
from dmlvk.onnx.operators import regions as regions
from dmlvk.onnx.operators import resampling as resampling
from dmlvk.onnx.operators import rotary as rotary
from dmlvk.onnx.operators import shape as shape
from dmlvk.onnx.operators import training as training
