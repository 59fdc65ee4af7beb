import LatchkeyModel
import TransportServer

/// The page that a code's URL opens in a browser, when the phone has no app for it, or the person used another scanner.
///
/// It says what the code is and how to go on. It reads nothing, changes nothing and repeats nothing of the URL: there
/// is nothing here for a phisher to use, and an idle preview by a messenger does no harm.
enum SignInPage {
  static let pages = [
    Page("GET", "/q") { _ in typed },
    Page("GET", below: "/q/") { _ in scanned },
    PageStyle.page,
  ]

  static let scanned = response(
    """
    <h1>Open this code in your app</h1>
    <p>You scanned a sign-in code. Open the app that you are already signed in to, choose
    <strong>Scan a sign-in code</strong> and scan it again there.</p>
    <p class="warning"><strong>Only go on if the code is on a screen in front of you and you asked for it
    yourself.</strong> If somebody sent it to you, close this page: they would be signed in as you.</p>
    """
  )

  static let typed = response(
    """
    <h1>Sign in on another screen</h1>
    <p>Open the app that you are already signed in to, choose <strong>Enter a code</strong> and type the eight
    letters from the screen that you want to sign in.</p>
    <p class="warning"><strong>Only go on if that screen is in front of you and you asked for the code
    yourself.</strong> If somebody sent you the letters, close this page: they would be signed in as you.</p>
    """
  )

  private static func response(_ text: String) -> PageResponse {
    let html = """
      <!doctype html>
      <html lang="en">
      <head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
      <meta name="robots" content="noindex"><title>Sign in</title>
      <link rel="stylesheet" href="\(PageStyle.path)"></head>
      <body>
      <main class="left">
      \(text)
      </main>
      </body>
      </html>

      """
    return PageResponse(
      headers: [
        ("content-type", "text/html; charset=utf-8"),
        (
          "content-security-policy",
          "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
      ],
      body: Array(html.utf8)
    )
  }
}
