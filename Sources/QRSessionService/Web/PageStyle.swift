import TransportServer

/// The look of this service's pages: one column, light or dark as the system is, a code always dark on white. Nothing
/// moves, and texts keep a contrast of 4.5 to 1, edges of buttons one of 3 to 1 (WCAG 2.2, 1.4.3 and 1.4.11).
enum PageStyle {
  static let path = "/signin/screen.css"
  static let page = Page("GET", path) { _ in sheet }
  private static let sheet = asset("text/css; charset=utf-8", css)

  /// What a page loads from its own origin.
  static func asset(_ type: String, _ text: String) -> PageResponse {
    PageResponse(
      headers: [
        ("content-type", type), ("x-content-type-options", "nosniff"), ("cross-origin-resource-policy", "same-origin"),
        // A new release must not meet an old page's script.
        ("cache-control", "no-cache"),
      ],
      body: Array(text.utf8)
    )
  }

  private static let css = """
    :root { color-scheme: light dark; --ink: #1a1d21; --quiet: #5b636d; --paper: #f4f5f7; --card: #ffffff;
      --line: #d9dde2; --edge: #7c858f; --accent: #1f5fd6; --on-accent: #ffffff; --bad: #b3261e; --good: #1d7a3d; }
    @media (prefers-color-scheme: dark) {
      :root { --ink: #eceef1; --quiet: #a3abb5; --paper: #14171a; --card: #1f2327; --line: #363c43; --edge: #8b95a0;
        --accent: #8ab4ff; --on-accent: #0d1b33; --bad: #ff8a80; --good: #7bd89a; }
    }
    * { box-sizing: border-box; }
    body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem;
      background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
    main { width: 100%; max-width: 26rem; padding: 1.75rem; border: 1px solid var(--line); border-radius: 1rem;
      background: var(--card); text-align: center; }
    h1 { margin: 0 0 .5rem; font-size: 1.375rem; line-height: 1.25; }
    h1:focus { outline: none; }
    p { margin: .5rem 0; overflow-wrap: anywhere; }
    #text:empty, #note:empty { display: none; }
    .left { text-align: left; }
    .warning { padding: .75rem 1rem; border: 1px solid var(--edge); border-radius: .625rem; }
    .quiet { color: var(--quiet); font-size: .9375rem; }
    #frame { position: relative; width: 100%; max-width: 17rem; margin: 1.25rem auto .75rem; aspect-ratio: 1;
      border-radius: .75rem; background: #ffffff; overflow: hidden; }
    #code { display: block; width: 100%; height: 100%; }
    #code path { fill: #000000; shape-rendering: crispEdges; }
    #veil { position: absolute; inset: 0; display: grid; place-items: center; padding: 1rem; background: #ffffffee;
      color: #1a1d21; font-weight: 600; }
    #letters, #digits { color: var(--ink); }
    #letters { font: 600 1.375rem/1.5 ui-monospace, monospace; letter-spacing: .08em; }
    #digits { display: inline-block; margin: .25rem 0; padding: .25rem .75rem; border: 1px solid var(--line);
      border-radius: .5rem; font: 700 1.5rem/1.25 ui-monospace, monospace; letter-spacing: .15em; }
    .good { color: var(--good); }
    .bad { color: var(--bad); }
    button { width: 100%; margin-top: .625rem; padding: .75rem 1rem; border: 1px solid var(--edge);
      border-radius: .625rem; background: transparent; color: var(--ink); font: inherit; font-weight: 600;
      cursor: pointer; }
    button.first { border-color: var(--accent); background: var(--accent); color: var(--on-accent); }
    button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
    [hidden] { display: none !important; }

    """
}
