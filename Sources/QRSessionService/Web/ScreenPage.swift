import LatchkeyModel
import TransportServer

/// The page of a screen that wants to be signed in: shows a code, counts its time down, replaces it when it is over,
/// and asks the person at the screen whether the account that scanned is theirs before it collects anything (S4, S23).
///
/// Everything comes from this origin, nothing is written into the page: the policy lets no other script, style or
/// connection be.
enum ScreenPage {
  static func pages(_ calls: ScreenCalls) -> [Page] {
    [
      Page("GET", "/signin") { _ in html },
      Page("GET", "/signin/screen.js") { _ in script },
      Page("POST", "/signin/code") { await calls.issue($0) },
      Page("POST", "/signin/poll") { await calls.poll($0) },
      Page("POST", "/signin/cancel") { await calls.cancel($0) },
    ]
  }

  private static let html = PageResponse(
    headers: [
      ("content-type", "text/html; charset=utf-8"),
      (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
          + "form-action 'none'; frame-ancestors 'none'"
      ),
      ("cross-origin-opener-policy", "same-origin"),
      ("cross-origin-resource-policy", "same-origin"),
      ("x-content-type-options", "nosniff"),
      ("x-frame-options", "DENY"),
      ("referrer-policy", "no-referrer"),
      ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
      ("cache-control", "no-store"),
    ],
    body: Array(
      """
      <!doctype html>
      <html lang="en">
      <head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
      <meta name="robots" content="noindex"><title>Sign in</title>
      <link rel="stylesheet" href="\(PageStyle.path)"><script src="/signin/screen.js" defer></script></head>
      <body>
      <main>
      <div role="status" aria-live="polite">
      <h1 id="title" tabindex="-1">Sign in with your phone</h1><p id="text"></p></div>
      <noscript><p>This page needs JavaScript to show its code. Allow it for this page, then load the page
      again.</p></noscript>
      <div id="frame" hidden><svg id="code" role="img" aria-label="Sign-in code"></svg>
      <div id="veil" aria-hidden="true" hidden></div></div>
      <p id="typed" class="quiet" hidden>No camera? Type these letters in the app:<br><span id="letters"></span></p>
      <p id="check" class="quiet" hidden>If the app asks for a number: <span id="digits"></span></p>
      <p id="time" class="quiet" role="timer" hidden></p>
      <p id="note" class="bad" role="status" aria-live="polite"></p>
      <button id="first" class="first" type="button" hidden></button>
      <button id="second" type="button" hidden></button>
      </main>
      </body>
      </html>

      """.utf8
    )
  )

  private static let script = PageStyle.asset("text/javascript; charset=utf-8", ScreenScript.javaScript)
}
