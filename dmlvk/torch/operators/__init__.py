"""The lowerings, by family; importing them registers them."""

from dmlvk.torch.operators import elementwise as elementwise
from dmlvk.torch.operators import indexed as indexed
from dmlvk.torch.operators import movement as movement
from dmlvk.torch.operators import products as products
from dmlvk.torch.operators import rows as rows
from dmlvk.torch.operators import windows as windows
