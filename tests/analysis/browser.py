"""Opens a page in a real browser engine and prints, as JSON, what it did.  Run as a script; needs PyQt6-WebEngine.

python browser.py PAGE.html WIDTH [PICTURE.png]
"""

import json
import os
import sys

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("QTWEBENGINE_CHROMIUM_FLAGS", "--no-sandbox --disable-gpu")
os.environ.setdefault("QTWEBENGINE_DISABLE_SANDBOX", "1")

LOOK = """
JSON.stringify({
  title: document.title,
  lang: document.documentElement.lang,
  headings: [...document.querySelectorAll("h1, h2, h3")].map(each => each.tagName),
  images: [...document.images].map(each => [each.complete && each.naturalWidth > 0, each.alt]),
  scripts: document.scripts.length,
  page_width: document.documentElement.scrollWidth,
  window_width: window.innerWidth,
  text: document.body.innerText,
  ran: typeof window.ran === "undefined" ? null : window.ran
})
"""


def main(page, width, picture=None):
    from PyQt6.QtCore import QTimer, QUrl
    from PyQt6.QtWebEngineCore import QWebEnginePage, QWebEngineProfile, QWebEngineUrlRequestInterceptor
    from PyQt6.QtWebEngineWidgets import QWebEngineView
    from PyQt6.QtWidgets import QApplication

    requests, console = [], []

    class Interceptor(QWebEngineUrlRequestInterceptor):
        def interceptRequest(self, info):  # noqa: N802
            requests.append(info.requestUrl().toString()[:200])

    class Page(QWebEnginePage):
        def javaScriptConsoleMessage(self, level, message, line, source):  # noqa: N802
            console.append(f"{level.name}: {message}")

    application = QApplication(sys.argv[:1])
    profile = QWebEngineProfile()
    interceptor = Interceptor()
    profile.setUrlRequestInterceptor(interceptor)
    view = QWebEngineView()
    view.setPage(Page(profile, view))
    view.resize(width, 3000)
    view.show()

    def seen(found):
        print(json.dumps({**json.loads(found), "requests": requests, "console": console}))
        if picture:
            view.grab().save(picture)
        os._exit(0)  # Qt may crash while it puts itself away, after all is done

    def loaded(_):
        QTimer.singleShot(700, lambda: view.page().runJavaScript(LOOK, seen))

    view.loadFinished.connect(loaded)
    view.load(QUrl.fromLocalFile(page))
    QTimer.singleShot(60_000, application.quit)
    application.exec()
    sys.exit("the page was not loaded within a minute")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
