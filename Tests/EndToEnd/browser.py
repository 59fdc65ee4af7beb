"""A headless Chromium, driven over a pair of pipes by its own protocol, so that a test needs no further package."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

EXECUTABLE = shutil.which("chromium") or "chromium"


class Browser:
    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()

        def pipes():
            # Chromium reads its commands from 3 and writes to 4; neither may be closed by the move of the other.
            high = os.dup(commands), os.dup(answers)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        words = [
            EXECUTABLE, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
            f"--user-data-dir={self._profile.name}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            words, preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(commands)
        os.close(answers)
        self._number = 0
        self._bytes = b""
        #: What scripts threw.
        self.errors = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.page(f"{domain}.enable")

    def send(self, method, session=None, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(answer["params"]["exceptionDetails"])

    def _receive(self, seconds=30):
        deadline = time.monotonic() + seconds
        while b"\0" not in self._bytes:
            ready, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            self._bytes += os.read(self._read, 1 << 20)
        message, self._bytes = self._bytes.split(b"\0", 1)
        return json.loads(message)

    def page(self, method, **params):
        return self.send(method, self._session, **params)

    def open(self, url):
        self.page("Page.navigate", url=url)

    def value(self, expression):
        result = self.page("Runtime.evaluate", expression=expression, returnByValue=True, userGesture=True)
        return None if "exceptionDetails" in result else result["result"].get("value")

    def wait(self, expression, seconds=20):
        """Until the expression is true of the page."""
        deadline = time.monotonic() + seconds
        while not self.value(expression):
            shown = self.value("document.body && document.body.innerText")
            assert time.monotonic() < deadline, f"{expression} did not come true; the page says: {shown}"
            time.sleep(0.05)

    def text(self, name):
        return self.value(f"document.getElementById({json.dumps(name)}).innerText")

    def press(self, key):
        """One key, as a keyboard would."""
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"Enter": "\r"}.get(key, "")
        self.page("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, text=text)
        self.page("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def close(self):
        try:
            self.send("Browser.close")
        finally:
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            os.close(self._write)
            os.close(self._read)
            self._profile.cleanup()
