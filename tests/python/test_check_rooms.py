"""tools/check_rooms on small trees, whole and broken."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

TABLE = """# The rooms
| level | room | what it is |
| --- | --- | --- |
| 6 | torch | the adapter |
| 5 | engine | above |
| 1 | device | below |
| 1 | pool | beside |
| 0 | base | the ground |
"""

WHOLE = {
    "src/README.md": TABLE,
    "src/base/units.h": "#include <cstdint>\n",
    "src/device/cuda/card.cpp": '#include <cuda.h>\n#include "device/card.h"\n',
    "src/device/card.cpp": '#include <fmt/format.h>\n#include "base/units.h"\n',
    "src/pool/pool.cpp": '#include "pool/pool.h"\n#include "base/units.h"\n',
    "src/engine/engine.h": '#include "pool/pool.h"\n#include "device/card.h"\n',
    "src/torch/handler.cpp": '#include <torch/library.h>\n#include "torch/handler.h"\n#include "engine/engine.h"\n',
    "src/torch/cuda/allocator.cpp": "#include <c10/cuda/CUDACachingAllocator.h>\n#include <cuda_runtime_api.h>\n",
}


@pytest.fixture
def check(write_tree, run):
    return lambda changes: run(ROOT / "tools/check_rooms", write_tree({**WHOLE, **changes}))


def test_a_tree_that_points_down_passes(check):
    done = check({})
    assert done.returncode == 0, done.stdout
    assert "5 rooms" in done.stdout


@pytest.mark.parametrize("file, line, says", [
    ("src/base/units.h", '#include "pool/pool.h"', "base (level 0) includes pool (level 1)"),
    ("src/pool/pool.cpp", '#include "device/card.h"', "pool (level 1) includes device (level 1)"),
    ("src/pool/pool.cpp", '  #  include "engine/engine.h"', "pool (level 1) includes engine (level 5)"),
    ("src/pool/pool.cpp", "#include <engine/engine.h>", "pool (level 1) includes engine (level 5)"),
    ("src/device/card.cpp", "#include <cuda_runtime.h>", "CUDA header"),
    ("src/engine/engine.h", "#include <cuda.h>", "CUDA header"),
    ("src/torch/handler.cpp", "#include <ATen/cuda/CUDAContext.h>", "CUDA header"),
    ("src/engine/engine.h", "#include <torch/torch.h>", "torch header"),
    ("src/engine/engine.h", "#include <ATen/core/Tensor.h>", "torch header"),
    ("src/device/cuda/card.cpp", "#include <c10/core/Device.h>", "torch header"),
    ("src/torch/handler.cpp", "#include <fmt/format.h>", "the other fmt"),
    ("src/pool/pool.h", "#include <spdlog/spdlog.h>", "the other fmt"),
    ("src/pool/pool.cpp", '#include "pool.h"', "names no room"),
    ("src/pool/pool.cpp", '#include "../base/units.h"', "names no room"),
])
def test_an_include_that_breaks_a_rule_is_named_with_its_line(check, file, line, says):
    done = check({file: "// first line\n" + line + "\n"})
    assert done.returncode == 1
    assert f"{file}:2: " in done.stdout
    assert says in done.stdout


def test_a_folder_outside_the_table_is_named(check):
    done = check({"src/util/misc.h": ""})
    assert done.returncode == 1
    assert "src/util: this folder is not in the table" in done.stdout


def test_a_room_without_a_folder_is_named(check):
    done = check({"src/README.md": TABLE + "| 7 | cli | the command |\n"})
    assert done.returncode == 1
    assert "the room cli has no folder" in done.stdout


def test_a_table_that_cannot_be_found_is_a_failure(check):
    done = check({"src/README.md": "# The rooms\n"})
    assert done.returncode == 1
    assert "no table of rooms" in done.stdout


def test_an_include_in_a_comment_is_no_include(check):
    assert check({"src/base/units.h": '// #include "engine/engine.h"\n'}).returncode == 0
