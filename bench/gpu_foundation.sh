#!/usr/bin/env bash
# The foundation on a card: the tests that need one, then our pool beside PyTorch's allocators.
#
#   bench/gpu_foundation.sh build    build gpu_tests and bench_pool_cuda into build/gpu, with the recorded steps' sequences
#   bench/gpu_foundation.sh          run them (building first what is missing); results under $OUT, else build/gpu/results
#
# 70 s on an NVIDIA H200. Needs only python3 with torch where the binaries are carried along: their libraries are taken from that torch.
set -euo pipefail
cd "$(dirname "$0")/.."
root=build/gpu
python=${PYTHON:-python3}
[ -z "${PYTHON:-}" ] && [ -x .venv/bin/python ] && python=.venv/bin/python

build() {
  cmake -S . -B build/gpu-cmake -G Ninja -DCMAKE_BUILD_TYPE=Release > /dev/null
  cmake --build build/gpu-cmake --target gpu_tests bench_pool_cuda
  mkdir -p $root/sequences
  for binary in gpu_tests bench_pool_cuda; do
    install -s "$(find build/gpu-cmake -type f -name $binary)" $root/$binary
  done
  for step in traces/*.json.gz; do
    "$python" bench/record_allocations.py --from-trace "$step" --out "$root/sequences/$(basename "$step" .json.gz).seq"
  done
}

if [ "${1:-}" = build ]; then build; exit; fi
[ -x $root/gpu_tests ] && [ -x $root/bench_pool_cuda ] || build

out=${OUT:-$root/results}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
libraries=$("$python" - <<'PY'
import importlib.util, pathlib
torch = pathlib.Path(importlib.util.find_spec("torch").submodule_search_locations[0])
print(":".join(map(str, [torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))])))
PY
)
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

failed=0
# A test that hangs on the card ends here, and its name is the last in the log.
timeout 90 $root/gpu_tests > "$out/gpu_tests.txt" 2>&1 || failed=1
grep -vE '^\[ +(OK|RUN) +\]|^\[---' "$out/gpu_tests.txt" | tail -60 || true

for model in resnet50 vit_b gpt2; do
  "$python" bench/record_allocations.py --model $model --out "$work/${model}_own.seq" > "$work/$model.log" 2>&1 &
done
wait
tail -qn 2 "$work"/*.log | tee "$out/recorded.txt"
sequences=("$root"/sequences/*.seq)
for own in "$work"/*.seq; do [ -s "$own" ] && sequences+=("$own") && gzip -c "$own" > "$out/$(basename "$own").gz"; done

timeout 60 $root/bench_pool_cuda "${sequences[@]}" 2>&1 | tee "$out/pool.txt" || failed=1
echo "native with expandable segments:"
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True timeout 30 $root/bench_pool_cuda --only native "${sequences[@]}" 2>&1 |
  tee "$out/pool_expandable.txt" || failed=1
exit $failed
