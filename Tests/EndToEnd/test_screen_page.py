"""The sign-in page as a person at the screen meets it, in a browser."""

import json
import time

import grpc
import pytest
import services
from browser import Browser
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from world import World

CONTRAST = """
(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (colour) => {
    const [red, green, blue] = parts(colour).map((value) => {
      value /= 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const poor = [];
  for (const node of document.querySelectorAll('h1, p, span, button')) {
    if (!node.innerText || !node.offsetParent) continue;
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(node.innerText);
  }
  return poor.join('; ');
})()
"""


@pytest.fixture(scope="module")
def chromium():
    browser = Browser()
    try:
        yield browser
    finally:
        browser.close()


@pytest.fixture
def browser(chromium):
    yield chromium
    assert not chromium.errors
    chromium.page("Emulation.setScriptExecutionDisabled", value=False)
    chromium.open("about:blank")


class Screen:
    """The page, and what it shows."""

    def __init__(self, world, browser):
        self.world, self.browser = world, browser
        self.base = f"{'https' if world.authority else 'http'}://{world.target('qr')}"

    def show(self):
        self.browser.open(f"{self.base}/signin")
        self.browser.wait("document.getElementById('letters')?.innerText.length === 9")
        return self.browser.text("letters")

    def scan(self, phone):
        request = pb.ScanSessionRequest(user_code=self.browser.text("letters"))
        scan = self.world.qr.ScanSession(request, metadata=phone.metadata, timeout=10)
        self.browser.wait("document.title === 'Scanned'")
        return scan

    def looks_right(self):
        """Readable in both colour schemes, and nothing sticks out at four times the size."""
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            self.browser.page("Emulation.setEmulatedMedia", features=features)
            assert self.browser.value(CONTRAST) == ""
        size = {"width": 320, "height": 256, "deviceScaleFactor": 4, "mobile": False}
        self.browser.page("Emulation.setDeviceMetricsOverride", **size)
        assert self.browser.value("document.documentElement.scrollWidth") <= 320
        self.browser.page("Emulation.clearDeviceMetricsOverride")


def test_person_signs_in_by_keyboard(world, browser):
    """S23: the page names who scanned and waits for the person at the screen, who gets through it by keyboard"""
    screen, phone = Screen(world, browser), world.account("ada.lovelace@example.net")
    screen.show()
    screen.looks_right()
    scan = screen.scan(phone)
    assert "a***@e***.net has scanned" in browser.text("text")
    screen.looks_right()
    phone.confirm(scan, browser.text("digits"))
    browser.wait("document.title === 'Continue as a***@e***.net?'")
    assert phone.introspect().active and "Go on only if this is your account" in browser.text("text")
    screen.looks_right()
    # Nothing is chosen for the person: the first key finds the button, the second presses it.
    assert browser.value("document.activeElement === document.body")
    browser.press("Tab")
    assert browser.value("document.activeElement.innerText") == "Continue"
    browser.press("Enter")
    browser.wait("document.title === 'Signed in as Ada'")
    # The button is gone; who cannot see goes on where it is said.
    assert browser.value("document.activeElement.id") == "title"
    screen.looks_right()


def test_screen_says_how_it_ended(world, browser):
    """S7: refused on the phone, or not meant by who sits at the screen: nobody is signed in, and the page says so"""
    screen, phone = Screen(world, browser), world.account()
    first = screen.show()
    phone.deny(screen.scan(phone))
    browser.wait("document.title === 'Refused'")
    screen.looks_right()
    browser.value("document.getElementById('first').click()")
    browser.wait(f"!['', '{first}'].includes(document.getElementById('letters').innerText)")
    screen.scan(phone)
    browser.value("document.getElementById('second').click()")
    browser.wait("document.title === 'Nobody was signed in'")


@pytest.mark.usefixtures("engine")
def test_person_signs_in_by_tls(tls_world, browser):
    """S23: by TLS, where a browser speaks HTTP/2, the page signs its person in as well"""
    browser.page("Security.setIgnoreCertificateErrors", ignore=True)
    screen, phone = Screen(tls_world, browser), tls_world.account("ada.lovelace@example.net")
    screen.show()
    assert browser.value("performance.getEntriesByType('resource').map((it) => it.nextHopProtocol).join()").startswith("h2")
    scan = screen.scan(phone)
    phone.confirm(scan, browser.text("digits"))
    browser.wait("document.title === 'Continue as a***@e***.net?'")
    browser.press("Tab")
    browser.press("Enter")
    browser.wait("document.title === 'Signed in as Ada'")


@pytest.mark.usefixtures("engine")
def test_screen_outlives_its_codes_and_the_service(binaries, tmp_path, browser):
    """S4: an expired code is replaced and said to be; while the service is away the page says so, and goes on after"""
    with services.Fleet(binaries, tmp_path, arguments={"qr": ["--code-lifetime", "4s"]}) as fleet:
        world = World(fleet)
        screen = Screen(world, browser)
        first = screen.show()
        browser.wait(f"document.getElementById('letters').innerText !== '{first}'")
        assert "has expired" in browser.text("text")
        fleet["qr"].stop()
        browser.wait("document.getElementById('note').innerText.includes('cannot be reached')")
        browser.wait("document.getElementById('veil').checkVisibility()")
        assert browser.text("veil") == "Expired"
        assert browser.value("document.getElementById('letters').offsetParent === null")
        screen.looks_right()
        fleet["qr"].start()
        browser.wait("document.getElementById('letters').offsetParent !== null")
        assert not browser.text("note")
        world.close()


# As the server says it that has too much to do for the service to be asked.
OVERLOADED = """
  window.really = window.fetch;
  window.fetch = async () => new Response('the server has more to do than it can do in time\\n', {
    status: 503, headers: { 'content-type': 'text/plain; charset=utf-8', 'retry-after': '1' },
  });
"""


def test_server_has_too_much_to_do(world, browser):
    """S4: where the server refuses what the page asks, the page says so, and a person gets a code when there is room"""
    screen = Screen(world, browser)
    script = browser.page("Page.addScriptToEvaluateOnNewDocument", source=OVERLOADED)["identifier"]
    try:
        browser.open(f"{screen.base}/signin")
        browser.wait("document.getElementById('text').innerText.includes('Too many people are signing in')")
    finally:
        browser.page("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    screen.looks_right()
    browser.value("window.fetch = window.really, document.getElementById('first').click()")
    browser.wait("document.getElementById('letters').innerText !== ''")
    assert "Too many" not in browser.text("text")


def test_code_is_given_up_while_the_server_refuses(world, browser):
    """S23: a person at the screen who says that it was not they is heard by the server as soon as it listens"""
    screen, phone = Screen(world, browser), world.account()
    screen.show()
    screen.scan(phone)
    browser.value(OVERLOADED)
    browser.value("document.getElementById('second').click()")
    browser.wait("document.title === 'Nobody was signed in'")
    # What the page asks meanwhile is kept here, and goes to the server from then on.
    browser.value("window.fetch = (path, options) => { window.asked = options.body; return window.really(path, options); }")
    browser.wait("window.asked !== undefined")
    poll = pb.PollSessionRequest(device_code=json.loads(browser.value("window.asked"))["device_code"])
    deadline = time.monotonic() + 10
    with pytest.raises(grpc.RpcError, match="the code was cancelled"):
        while time.monotonic() < deadline:
            world.qr.PollSession(poll, timeout=10)
            time.sleep(0.1)


def test_identity_is_away_for_a_moment(own_world, browser):
    """S5: a sign-in that identity cannot make now is not lost: the person tries again"""
    screen, phone = Screen(own_world, browser), own_world.account()
    screen.show()
    phone.confirm(screen.scan(phone), browser.text("digits"))
    browser.wait("document.title.startsWith('Continue as')")
    own_world.fleet["identity"].stop()
    browser.value("document.getElementById('first').click()")
    browser.wait("document.title === 'That did not work'")
    own_world.fleet["identity"].start()
    browser.wait("(document.getElementById('first').click(), document.title.startsWith('Signed in'))")


def test_without_scripts(world, browser):
    """S22: the pages that codes lead to need no script, and the one that does says so without it"""
    browser.page("Emulation.setScriptExecutionDisabled", value=True)
    base = f"http://{world.target('qr')}"
    texts = {"/signin": "needs JavaScript", "/q": "Sign in on another screen", "/q/1/x": "Only go on if"}
    for path, text in texts.items():
        browser.open(base + path)
        browser.wait(f"document.body && document.body.innerText.includes('{text}')")
        assert browser.value("document.documentElement.lang") == "en"
        browser.wait("getComputedStyle(document.querySelector('main')).maxWidth === '416px'")
