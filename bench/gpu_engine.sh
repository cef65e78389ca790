#!/usr/bin/env bash
# The engine on a card: its checks, the driver's count, memcheck, the operator sweep, the zoo; and bench/run, dynamic, tensile,
# first_step, which take nine minutes at most unless told otherwise and go on where they stopped.
#
#   bench/gpu_engine.sh build              stage the package with a stripped library, and the C++ tests, in build/gpu
#   bench/gpu_engine.sh [PART ...]         checks driver memcheck contract sweep zoo (all without a word);
#                                          results under $OUT, else build/gpu/results
#   bench/gpu_engine.sh rows WORDS...      bench/run WORDS; goes on from the cells in build/gpu/rows, which come out in rows/
#   bench/gpu_engine.sh dynamic WORDS...   bench/dynamic WORDS, likewise in build/gpu/dynamic; all cells come out in dynamic.tar
#   bench/gpu_engine.sh tensile WORDS...   bench/tensile WORDS, likewise in build/gpu/tensile and tensile.tar
#   bench/gpu_engine.sh first_step WORDS...   bench/first_step WORDS, likewise in build/gpu/first_step and first_step.tar
#
# Needs python3 with torch; build/gpu is all that must be carried along.
set -uo pipefail
cd "$(dirname "$0")/.."
stage=build/gpu/python
python=${PYTHON:-python3}

build() {
  local from=${SPILLWAY_BUILD:-build/dev}
  cmake --build "$from" --target spillway_torch gpu_tests
  rm -rf $stage && mkdir -p $stage/spillway/lib
  cp -L "$from"/python/spillway/*.py $stage/spillway/
  cp -rL "$from"/python/spillway/bench $stage/spillway/
  objcopy --strip-debug "$from/python/spillway/lib/libspillway_torch.so" $stage/spillway/lib/libspillway_torch.so
  objcopy --strip-debug "$from/tests/gpu_tests" build/gpu/gpu_tests
  # What torch's database of operators imports and a machine with torch may lack.
  local packages
  packages=$("${PYTHON:-.venv/bin/python}" -c "import hypothesis, pathlib; print(pathlib.Path(hypothesis.__file__).parents[1])")
  cp -r "$packages"/{expecttest,hypothesis,sortedcontainers,_hypothesis_ftz_detector.py,_hypothesis_globals.py} $stage/
  find $stage -name __pycache__ -prune -exec rm -rf {} +
}

if [ "${1:-}" = build ]; then build; exit; fi
out=${OUT:-build/gpu/results}
mkdir -p "$out"
export PYTHONPATH=$PWD/$stage PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
failed=0

# part NAME SECONDS COMMAND...: its output goes to NAME.txt as well
part() {
  local name=$1 seconds=$2 begin=$SECONDS
  shift 2
  echo "== $name: $*"
  timeout "$seconds" "$@" 2>&1 | tee -a "$out/$name.txt" || { failed=1; echo "== $name: failed or out of time"; }
  echo "== $name took $((SECONDS - begin)) s"
}

memcheck() {
  local tool
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2> /dev/null | head -1)
  [ -n "$tool" ] || { echo "memcheck skipped: no compute-sanitizer"; return; }
  part memcheck 150 "$tool" --error-exitcode 7 "$python" tests/gpu/sanitized.py
  # The opposite: a read of decommitted memory must be found.
  timeout 150 "$tool" --print-limit 1 "$python" tests/gpu/sanitized.py --stray > "$out/memcheck_stray.txt" 2>&1
  grep -m1 "Invalid __global__ read" "$out/memcheck_stray.txt" || { failed=1; echo "memcheck: a stray read was not found"; }
}

case ${1:-} in
  rows | dynamic | tensile | first_step)
    name=$1 driver=${1/rows/run}
    shift
    part "$name" 595 "$python" "bench/$driver" --out "build/gpu/$name" --minutes 9 "$@"
    mkdir -p "build/gpu/$name"
    if [ "$name" = rows ]; then cp -r build/gpu/rows "$out/"; else tar -C build/gpu -cf "$out/$name.tar" "$name"; fi
    exit $failed ;;
esac

for what in "${@:-checks driver memcheck contract sweep zoo}"; do
  for one in $what; do
    case $one in
      checks)
        for file in engine memory_api native strict lean; do part checks 150 "$python" tests/gpu/${file}_test.py; done ;;
      driver) part driver 100 "$python" tests/gpu/driver_test.py ;;
      memcheck) memcheck ;;
      contract) part contract 60 build/gpu/gpu_tests --gtest_brief=1 --gtest_filter='-CudaFigures.*' ;;
      sweep) part sweep 420 "$python" tests/gpu/sweep_run.py ;;
      zoo) part zoo 260 "$python" tests/gpu/zoo_run.py --seconds 200 --at-once 8 ;;
      *) "$python" tests/gpu/engine_test.py "$one" || failed=1 ;;
    esac
  done
done
exit $failed
