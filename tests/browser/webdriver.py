"""A few words of WebDriver, enough to drive headless Chromium.

chromedriver speaks JSON over HTTP, so the standard library is all it takes.
"""
import base64
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'


def find():
    """The paths of browser and driver, or None where one is missing."""
    browser = shutil.which('chromium') or shutil.which('google-chrome')
    driver = shutil.which('chromedriver')
    return (browser, driver) if browser and driver else None


class Browser:
    """One window.  Use it in a `with`, so that nothing is left behind."""

    def __init__(self, folder, width=1280, height=900, dark=False):
        binary, driver = find()
        log = open(os.path.join(folder, 'chromedriver.log'), 'wb')
        self._driver = subprocess.Popen(
            [driver, '--port=0'], stdout=subprocess.PIPE, stderr=log)
        log.close()
        self._base = 'http://127.0.0.1:%s' % self._port()
        options = {
            'binary': binary,
            'args': ['--headless=new', '--no-sandbox', '--disable-gpu',
                     '--disable-dev-shm-usage', '--disable-extensions',
                     '--disable-background-networking', '--no-first-run',
                     '--disable-component-update', '--disable-sync',
                     '--window-size=%d,%d' % (width, height),
                     '--user-data-dir=' + os.path.join(folder, 'profile'),
                     ] + (['--force-dark-mode',
                           '--blink-settings=preferredColorScheme=0']
                          if dark else []),
            'prefs': {'download.default_directory': folder},
        }
        answer = self._call('POST', '/session', {'capabilities': {
            'alwaysMatch': {'browserName': 'chrome',
                            'goog:chromeOptions': options,
                            'goog:loggingPrefs': {'browser': 'ALL',
                                                  'performance': 'ALL'}}}})
        self._session = '/session/' + answer['sessionId']

    def _port(self):
        for line in self._driver.stdout:
            if b'successfully on port ' in line:
                return int(line.split(b'on port ')[1].strip(b'.\n '))
        raise RuntimeError('chromedriver does not start')

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._base + path, data, {'Content-Type': 'application/json'},
            method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as r:
                return json.load(r)['value']
        except urllib.error.HTTPError as e:
            raise RuntimeError(json.load(e)['value']['message']) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._call('DELETE', self._session)
        finally:
            self._driver.terminate()
            self._driver.wait()
            self._driver.stdout.close()

    def open(self, url):
        self._call('POST', self._session + '/url', {'url': url})

    def run(self, script, *args):
        """What `return` of the script gives."""
        return self._call('POST', self._session + '/execute/sync',
                          {'script': script, 'args': list(args)})

    def wait(self, script, what, seconds=60):
        """Until the script's value is true; that value."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError('%s: not within %d s' % (what, seconds))
            time.sleep(0.2)

    def click(self, css):
        """Finds and clicks; again where the page was drawn anew between."""
        for more in (True, True, False):
            found = self._call('POST', self._session + '/element',
                               {'using': 'css selector', 'value': css})
            try:
                return self._call('POST', '%s/element/%s/click'
                                  % (self._session, found[ELEMENT]), {})
            except RuntimeError as e:
                if not more or 'stale' not in str(e):
                    raise

    def type(self, css, text):
        found = self._call('POST', self._session + '/element',
                           {'using': 'css selector', 'value': css})
        self._call('POST', '%s/element/%s/value'
                   % (self._session, found[ELEMENT]), {'text': text})

    def drag(self, css, start, end):
        """Across the element, from one share of its width to another."""
        box = self.run("const e = document.querySelector(arguments[0]);"
                       "e.scrollIntoView({block: 'center'});"
                       "const r = e.getBoundingClientRect();"
                       "return [r.left, r.top, r.width, r.height]", css)
        move = [{'type': 'pointerMove', 'duration': 60,
                 'x': int(box[0] + k * box[2]),
                 'y': int(box[1] + box[3] / 2)}
                for k in (start, (start + end) / 2, end)]
        self._call('POST', self._session + '/actions', {'actions': [{
            'type': 'pointer', 'id': 'mouse',
            'parameters': {'pointerType': 'mouse'},
            'actions': [move[0], {'type': 'pointerDown', 'button': 0},
                        move[1], move[2],
                        {'type': 'pointerUp', 'button': 0}]}]})

    def wheel(self, css, by):
        """Over the middle of the element."""
        found = self._call('POST', self._session + '/element',
                           {'using': 'css selector', 'value': css})
        self._call('POST', self._session + '/actions', {'actions': [{
            'type': 'wheel', 'id': 'wheel', 'actions': [{
                'type': 'scroll', 'x': 0, 'y': 0, 'deltaX': 0, 'deltaY': by,
                'origin': found}]}]})

    def size(self, width, height):
        self._call('POST', self._session + '/window/rect',
                   {'width': width, 'height': height})

    def screenshot(self, path):
        with open(path, 'wb') as f:
            f.write(base64.b64decode(
                self._call('GET', self._session + '/screenshot')))

    def log(self, kind):
        return self._call('POST', self._session + '/se/log', {'type': kind})

    def requests(self):
        """Every address that was asked for."""
        out = []
        for entry in self.log('performance'):
            m = json.loads(entry['message'])['message']
            if m['method'] == 'Network.requestWillBeSent':
                out.append(m['params']['request']['url'])
        return out
