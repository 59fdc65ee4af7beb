extension LoadReport {
  /// One file, with nothing to load from anywhere.
  package func html() -> String {
    let verdict = hasFailed ? "<p class=\"bad\">Failed</p>" : "<p class=\"good\">Passed</p>"
    let heads = headings.map { "<th>\(Self.escaped($0))</th>" }.joined()
    let body = rows.map { row in "<tr>" + row.map { "<td>\(Self.escaped($0))</td>" }.joined() + "</tr>\n" }.joined()
    let facts = facts.map { "<li>\(Self.escaped($0))</li>\n" }.joined()
    return """
      <!doctype html>
      <html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
      <title>\(Self.escaped(title))</title>
      <style>
      body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#18181b;background:#fff}
      h1{font-size:20px;margin:0}h1+p{color:#52525b;margin:.2em 0 1em}svg{width:100%;height:auto;margin:.5em 0}
      .wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;white-space:nowrap;font-size:13px}
      th,td{padding:.25em .6em;text-align:right;border-bottom:1px solid #e4e4e7}th:first-child,td:first-child{text-align:left}
      .good,.bad{display:inline-block;padding:.1em .8em;border-radius:1em;color:#fff;font-weight:600}
      .good{background:#047857}.bad{background:#b91c1c}
      </style></head>
      <body><h1>latchkey load</h1><p>\(Self.escaped(title))</p>
      \(verdict)
      \(latencyPlot().svg())\(throughputPlot().svg())
      <div class="wide"><table><thead><tr>\(heads)</tr></thead><tbody>
      \(body)</tbody></table></div>
      <ul>
      \(facts)</ul>
      </body></html>

      """
  }
}
