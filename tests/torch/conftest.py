import os

# Some virtual machines announce AMX and end a process that uses it; every run here inherits this.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# A run must not depend on those before it: where nothing can be kept, nothing is.
os.environ["SPILLWAY_CACHE_DIR"] = "/dev/null/steps"
