import os

import pytest

# Some virtual machines announce AMX and end a process that uses it; every run here inherits this.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# A run must not depend on those before it: where nothing can be kept, nothing is.
os.environ["SPILLWAY_CACHE_DIR"] = "/dev/null/steps"


@pytest.fixture
def tell(request):
    """Says something of a test that passed: where the run ends, and in the file that tools/tally.py reads."""
    return lambda line: request.node.user_properties.append(("told", line))


def pytest_terminal_summary(terminalreporter):
    reports = [report for report in terminalreporter.getreports("passed") if report.when == "call"]
    lines = [value for report in reports for name, value in report.user_properties if name == "told"]
    if lines:
        terminalreporter.section("told by tests")
    for line in lines:
        terminalreporter.line(line)
