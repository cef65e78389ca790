#!/usr/bin/env bash
# The engine on a card: its checks, the zoo, then ResNet-50 and GPT-2 medium inside budgets.
#
#   bench/gpu_engine.sh build              stage the package with a stripped library in build/gpu/python
#   bench/gpu_engine.sh [checks|zoo|bench ...]   run these (all without a word); results under $OUT, else build/gpu/results
#
# Needs python3 with torch; build/gpu is all that must be carried along.
set -uo pipefail
cd "$(dirname "$0")/.."
stage=build/gpu/python
python=${PYTHON:-python3}

build() {
  local from=${SPILLWAY_BUILD:-build/gpu-cmake}
  [ -d "$from" ] || cmake -S . -B "$from" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo > /dev/null
  cmake --build "$from" --target spillway_torch
  rm -rf $stage && mkdir -p $stage/spillway/lib
  cp -L "$from"/python/spillway/*.py $stage/spillway/
  objcopy --strip-debug "$from/python/spillway/lib/libspillway_torch.so" $stage/spillway/lib/libspillway_torch.so
}

if [ "${1:-}" = build ]; then build; exit; fi
out=${OUT:-build/gpu/results}
mkdir -p "$out"
export PYTHONPATH=$PWD/$stage PYTHONUNBUFFERED=1
failed=0
for what in "${@:-checks zoo bench}"; do
  for part in $what; do
    case $part in
      checks) timeout 170 "$python" tests/gpu/engine_test.py 2>&1 | tee "$out/checks.txt" || failed=1 ;;
      zoo) timeout 170 "$python" tests/gpu/zoo_run.py --seconds 100 2>&1 | tee "$out/zoo.txt" || failed=1 ;;
      bench)
        for model in resnet50 gpt2; do
          for policy in dtr lru; do
            timeout 100 "$python" bench/engine_cuda.py $model $policy --out "$out/engine.jsonl" 2>&1 | tee -a "$out/bench.txt" || failed=1
          done
        done ;;
      *) "$python" tests/gpu/engine_test.py "$part" || failed=1 ;;
    esac
  done
done
exit $failed
