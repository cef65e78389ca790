"""`spillway report`: the page in a real browser, its size and speed, and the file for the Perfetto viewer."""

import json
import os
import re
import subprocess
import time

import browser
import pytest
from made_up_run import BUDGET, MadeUpRun

from spillway import native

needs_browser = pytest.mark.skipif(browser.BINARY is None, reason="there is no chromium here: apt-get install chromium")
LONG = "SPILLWAY_TEST_LONG" in os.environ
READY = "document.body && document.body.dataset.ready"


def tool(*arguments):
    return subprocess.run([native.TOOL, *map(str, arguments)], capture_output=True, text=True)


def make_trace(folder, run, steps):
    """(the trace, how many events it holds)"""
    lines, trace = folder / "run.jsonl", folder / "run.spt"
    events = run.write(lines, steps)
    done = tool("import", lines, "-o", trace)
    assert done.returncode == 0, done.stderr
    lines.unlink()
    return trace, events


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return make_trace(tmp_path_factory.mktemp("report"), MadeUpRun(), steps=6)[0]


@pytest.fixture(scope="module")
def page(trace):
    page = trace.with_suffix(".html")
    done = tool("report", trace, "-o", page)
    assert (done.returncode, done.stderr) == (0, "")
    return page


@pytest.fixture(scope="module")
def opened(page):
    """The page, drawn, in one browser for all tests that only look and click."""
    with browser.Browser() as looking:
        looking.open(page)
        looking.wait_for(READY)
        yield looking


@needs_browser
def test_the_last_step_is_drawn_without_a_complaint(opened):
    assert opened.value("document.querySelector('#step-title').textContent") == "Step 5"
    assert opened.value("document.title") == "run.spt – Spillway report"
    assert opened.ink("#timeline") > 100_000
    assert opened.ink("#steps") > 10_000
    assert opened.errors == []


@needs_browser
def test_the_figures_are_those_of_the_trace(opened, trace):
    texts = "[...document.querySelectorAll('.figure')].map(f => [...f.children].map(c => c.textContent))"
    figures = {name: value for name, value, *_ in opened.value(texts)}
    summary = tool("export", "--summary", trace).stdout
    peak = int(re.search(r"^peak with transients\s+(\d+)", summary, re.MULTILINE)[1])
    assert figures["Peak memory"] == f"{peak / 2**20:.3g} MiB"
    assert peak <= BUDGET
    assert opened.value("page.step.memory.most.device") == peak
    moved = sum(int(re.search(rf"^moved {way}\s+(\d+)", summary, re.MULTILINE)[1]) for way in ("out", "in"))
    assert figures["Moved"] == f"{moved / 6 / 2**20:.3g} MiB"


@needs_browser
def test_a_click_selects_a_step(opened):
    x, y, width, height = opened.place_of("#steps")
    for step in (1, 4):
        opened.click(x + 72 * step + 30, y + height / 2)
        opened.wait_for(f"document.body.dataset.step === '{step}'")
        assert opened.value("document.querySelector('#step-title').textContent") == f"Step {step}"
    opened.value("document.querySelector('#next').click()")
    opened.wait_for("document.body.dataset.step === '5'")
    assert opened.errors == []


@needs_browser
def test_a_drag_looks_closer_and_a_double_click_goes_back(opened):
    x, y, width, height = opened.place_of("#timeline")
    before = opened.value("page.timeline.range[1] - page.timeline.range[0]")
    opened.mouse("mousePressed", x + 400, y + 100, button="left", clickCount=1)
    opened.mouse("mouseMoved", x + 600, y + 100, button="left")
    opened.mouse("mouseReleased", x + 600, y + 100, button="left", clickCount=1)
    closer = opened.value("page.timeline.range[1] - page.timeline.range[0]")
    assert 0.1 * before < closer < 0.2 * before
    for count in (1, 2):
        opened.mouse("mousePressed", x + 500, y + 100, button="left", clickCount=count)
        opened.mouse("mouseReleased", x + 500, y + 100, button="left", clickCount=count)
    assert opened.value("page.timeline.range[1] - page.timeline.range[0]") == before
    assert opened.errors == []


@needs_browser
def test_the_pointer_is_told_what_it_is_over(opened):
    x, y, width, height = opened.place_of("#timeline")
    opened.mouse("mouseMoved", x + 500, y + 200)
    told = opened.wait_for("(tip => tip.style.display === 'block' && tip.textContent)(document.querySelector('#tip'))")
    assert "on the device" in told and "parameters" in told
    opened.mouse("mouseMoved", x + 200, y + opened.value("page.timeline.laneTop(0)") + 8)
    assert "phaseforward" in opened.value("document.querySelector('#tip').textContent")
    assert opened.errors == []


@needs_browser
def test_the_table_says_what_was_decided_and_why_and_a_click_shows_the_life(opened):
    first = opened.value("document.querySelector('#storages tbody tr').innerText")
    assert "moved out once, fetched once" in first
    assert "idle for 38 ops, the copy hides behind two convolutions" in first
    opened.value("document.querySelector('#storages tbody tr').click()")
    life = opened.value("page.timeline.chosen.life.map(part => part[2])")
    assert life == [True, False, True]
    opened.value("document.querySelector('#storages tbody tr').click()")
    assert opened.value("page.timeline.chosen") is None
    assert opened.errors == []


@needs_browser
def test_names_are_text_and_nothing_else(tmp_path):
    nasty = "</script><img src=x onerror='window.hurt = 1'>"
    trace, _ = make_trace(tmp_path, MadeUpRun(name=nasty), steps=1)
    assert tool("report", trace, "-o", tmp_path / "page.html", "--title", nasty).returncode == 0
    with browser.Browser() as looking:
        looking.open(tmp_path / "page.html")
        looking.wait_for(READY)
        assert looking.value("document.querySelector('#title').textContent") == nasty
        assert looking.value("document.querySelectorAll('img').length") == 0
        assert looking.value("window.hurt") is None
        assert looking.errors == []


# 10^6 events in a long run, in the two shapes that are hardest: one enormous step, and thousands of small ones.
@needs_browser
@pytest.mark.parametrize(("layers", "steps"), [(56_000, 1), (24, 2_350)] if LONG else [(5_600, 1), (24, 235)])
def test_a_large_trace_is_a_small_page_that_opens_at_once(tmp_path, layers, steps):
    trace, events = make_trace(tmp_path, MadeUpRun(layers), steps)
    assert events >= (1_000_000 if LONG else 100_000)
    page = tmp_path / "page.html"
    assert tool("report", trace, "-o", page).returncode == 0
    with browser.Browser() as looking:
        began = time.monotonic()
        looking.open(page)
        looking.wait_for(READY)
        looking.value("(page.timeline.zoom(.5), page.timeline.paint())")
        took = time.monotonic() - began
        assert looking.errors == []
    print(f"{events} events: {page.stat().st_size / 1e6:.1f} MB, drawn and zoomed after {took:.1f} s")
    assert page.stat().st_size <= 30e6
    assert took <= 5


def test_the_perfetto_file_has_tracks_slices_and_counters(trace, tmp_path):
    done = tool("report", trace, "--perfetto", tmp_path / "trace.json")
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert tracks == {"steps", "compute", "recompute", "copies out", "copies in", "stalls"}
    slices = [event for event in events if event["ph"] == "X"]
    assert {event["tid"] for event in slices} == {0, 1, 2, 3, 4, 5}
    assert all(event["dur"] >= 0 for event in slices)
    memory = [event for event in events if event["ph"] == "C" and event["name"] == "device memory"]
    assert max(sum(event["args"].values()) for event in memory) <= BUDGET


def test_a_report_without_a_place_to_go_asks_for_one(trace):
    done = tool("report", trace)
    assert done.returncode == 2
    assert done.stderr.startswith("spillway: where to? Name a page with -o page.html, ")


def test_a_trace_without_a_step_is_told(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"trace":"spillway","version":1,"times":"ns","sizes":"bytes"}\n')
    tool("import", tmp_path / "x.jsonl", "-o", tmp_path / "x.spt")
    done = tool("report", tmp_path / "x.spt", "-o", tmp_path / "x.html")
    assert done.returncode == 2
    assert "nothing to draw" in done.stderr
    assert not (tmp_path / "x.html").exists()


def test_a_page_that_cannot_be_written_is_told(trace):
    done = tool("report", trace, "-o", "/dev/full")
    assert done.returncode == 2
    assert done.stderr == "spillway: /dev/full: cannot be written\n"
