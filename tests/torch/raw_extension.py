"""C++ that reaches for memory itself, as a pybind module or as operators; built where OUT_OF_SIGHT_BUILD says."""

import os
from pathlib import Path

EXTENSION = r"""
#include <torch/extension.h>

// Reads and writes memory itself, as third parties do; no op is dispatched.
double sum_raw(const at::Tensor& tensor) {
  const float* values = static_cast<const float*>(tensor.storage().data());
  double total = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i) total += values[i];
  return total;
}

void scale_raw(at::Tensor tensor, double factor) {
  float* values = static_cast<float*>(tensor.storage().mutable_data());
  for (int64_t i = 0; i < tensor.numel(); ++i) values[i] *= static_cast<float>(factor);
}
"""

BINDINGS = r"""
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("sum_raw", &sum_raw);
  m.def("scale_raw", &scale_raw);
}
"""

OPERATORS = r"""
TORCH_LIBRARY(out_of_sight, m) { m.def("sum_raw(Tensor tensor) -> float"); }
TORCH_LIBRARY_IMPL(out_of_sight, CompositeExplicitAutograd, m) { m.impl("sum_raw", &sum_raw); }
"""


def built(name: str, source: str, **options):
    from torch.utils import cpp_extension

    folder = Path(os.environ["OUT_OF_SIGHT_BUILD"]) / name
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.cpp"
    if not file.exists():
        file.write_text(source)
    return cpp_extension.load(name, [str(file)], build_directory=str(folder), **options)
