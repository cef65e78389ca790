"""A real browser, headless, driven over its DevTools pipe: opens pages, clicks, reads values, takes pictures.

Chromium answers NUL-terminated JSON on file descriptor 4 to what it reads from 3; nothing but the standard library is
needed for that.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

BINARY = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_PATIENCE = 120.0  # seconds for one answer; only there to end a browser that hangs


class Browser:
    """One page in one browser; `errors` collects what the page complains about."""

    def __init__(self, width: int = 1440, height: int = 1000, dark: bool = False) -> None:
        self.errors: list[str] = []
        self._folder = tempfile.TemporaryDirectory(prefix="spillway-browser-")
        self._size = (width, height)
        self._dark = dark
        self._numbers = itertools.count(1)
        self._unread = b""
        self._session: str | None = None

    def __enter__(self) -> Browser:
        commands_out, self._commands = os.pipe()
        self._answers, answers_in = os.pipe()

        def take_places() -> None:  # above the places wanted first: a pipe may have been given one of them
            high_in, high_out = os.dup(commands_out), os.dup(answers_in)
            for end in (high_in, high_out):
                assert end > 4
            os.dup2(high_in, 3)
            os.dup2(high_out, 4)

        self._process = subprocess.Popen(
            [BINARY, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--hide-scrollbars", f"--user-data-dir={self._folder.name}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=take_places, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands_out)
        os.close(answers_in)
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        width, height = self._size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        if self._dark:
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        shutil.rmtree(self._folder.name, ignore_errors=True)  # its helpers may still be writing there

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its answer; events that come before it are noted."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            if not select.select([self._answers], [], [], _PATIENCE)[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self._answers, 1 << 20)
            if not more:
                raise RuntimeError("the browser is gone")
            self._unread += more
        text, self._unread = self._unread.split(b"\0", 1)
        return json.loads(text)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        if event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        if event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.errors.append(str(parameters["args"]))

    def open(self, page: Path) -> None:
        self.call("Page.navigate", url=page.resolve().as_uri())

    def value(self, expression: str) -> Any:
        """What an expression is worth in the page; promises are waited for."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", "?"))
        return result["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 60) -> Any:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if value := self.value(expression):
                return value
            time.sleep(0.02)
        raise TimeoutError(f"never true: {expression}; errors: {self.errors}")

    def place_of(self, selector: str) -> list[float]:
        """An element's left and upper edge, width and height."""
        box = f"document.querySelector('{selector}').getBoundingClientRect()"
        return self.value(f"(box => [box.x, box.y, box.width, box.height])({box})")

    def ink(self, selector: str) -> int:
        """How many pixels of a canvas are not blank."""
        return self.value(
            f"(canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data"
            f".filter((value, at) => at % 4 === 3 && value > 0).length)(document.querySelector('{selector}'))")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """`kind`: mousePressed, mouseReleased or mouseMoved."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def picture(self, file: Path, whole: bool = False) -> None:
        more: dict[str, Any] = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            more = {"captureBeyondViewport": True, "clip": clip}
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"]))
