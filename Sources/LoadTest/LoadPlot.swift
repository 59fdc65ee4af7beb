import Glibc
import Histogram

/// The pictures of a report, as SVG that needs nothing else.
extension LoadReport {
  /// Latency of the whole operation by percentile; the axis stretches towards 100%, one nine a step.
  package func latencySVG() -> String {
    let histogram = recorder.series[primary]
    let count = Double(histogram?.totalCount ?? 0)
    // Beyond one in `count` there is nothing to show.
    let nines = max(1, min(6, count > 1 ? log10(count) : 1))
    var points: [(x: Double, y: Double)] = []
    if let histogram {
      for step in 0...200 {
        let nine = Double(step) / 200 * nines
        let percent = 100 * (1 - pow(10, -nine))
        points.append((nine / nines, Double(histogram.valueAtPercentile(percent)) / 1e6))
      }
    }
    let ticks = [(0.0, "0%"), (0.30103, "50%"), (1, "90%"), (2, "99%"), (3, "99.9%"), (4, "99.99%"), (5, "99.999%")]
      .filter { $0.0 <= nines }
      .map { ($0.0 / nines, $0.1) }
    return Self.plot("Latency by percentile, ms", points, ticks, stroke: "#2563eb")
  }

  /// Operations that ended in each second, the ramp included.
  package func throughputSVG() -> String {
    let last = Double(max(1, recorder.seconds.count - 1))
    let points = recorder.seconds.enumerated().map { (x: Double($0.offset) / last, y: Double($0.element.done)) }
    let step = max(1, (recorder.seconds.count + 7) / 8)
    let ticks = stride(from: 0, to: recorder.seconds.count, by: step).map { (Double($0) / last, "\($0) s") }
    return Self.plot("Operations in each second", points, ticks, stroke: "#059669")
  }

  /// One file, with nothing to load from anywhere.
  package func html() -> String {
    """
    <!doctype html>
    <html lang="en"><head><meta charset="utf-8"><title>\(Self.escaped(title))</title>
    <style>body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;color:#111}
    pre{background:#f4f4f5;padding:1em;overflow:auto;font-size:12px}svg{width:100%;height:auto}</style></head>
    <body><h1>latchkey load</h1>
    \(latencySVG())
    \(throughputSVG())
    <pre>\(Self.escaped(text()))</pre></body></html>

    """
  }

  private static func plot(
    _ title: String,
    _ points: [(x: Double, y: Double)],
    _ ticks: [(Double, String)],
    stroke: String
  ) -> String {
    let top = niceCeiling(points.map(\.y).max() ?? 0)
    let (left, width, bottom, height) = (70.0, 650.0, 260.0, 210.0)
    func x(_ value: Double) -> String { fixed(left + value * width, 1) }
    func y(_ value: Double) -> String { fixed(bottom - value / top * height, 1) }
    var svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 740 300\" font-family=\"sans-serif\" "
    svg += "font-size=\"12\">\n<rect width=\"740\" height=\"300\" fill=\"#fff\"/>\n"
    svg += "<text x=\"\(x(0))\" y=\"28\" font-size=\"15\" font-weight=\"bold\">\(escaped(title))</text>\n"
    for line in 0...4 {
      let value = top * Double(line) / 4
      svg += "<line x1=\"\(x(0))\" x2=\"\(x(1))\" y1=\"\(y(value))\" y2=\"\(y(value))\" stroke=\"#e4e4e7\"/>"
      let label = fixed(value, top < 1 ? 3 : top < 20 ? 1 : 0)
      svg += "<text x=\"62\" y=\"\(y(value))\" dy=\"4\" text-anchor=\"end\">\(label)</text>\n"
    }
    for (place, label) in ticks {
      svg += "<text x=\"\(x(place))\" y=\"280\" text-anchor=\"middle\">\(label)</text>\n"
    }
    let path = points.map { "\(x($0.x)),\(y($0.y))" }.joined(separator: " ")
    return svg + "<polyline points=\"\(path)\" fill=\"none\" stroke=\"\(stroke)\" stroke-width=\"2\"/>\n</svg>\n"
  }

  /// The next of 1, 2 or 5 times a power of ten.
  static func niceCeiling(_ value: Double) -> Double {
    guard value > 0, value.isFinite else { return 1 }
    var unit = 1e-6
    while unit * 10 < value { unit *= 10 }
    return [1, 2, 5, 10].map { $0 * unit }.first { $0 >= value } ?? value
  }

  static func escaped(_ text: String) -> String {
    text.reduce(into: "") { result, character in
      switch character {
      case "<": result += "&lt;"
      case ">": result += "&gt;"
      case "&": result += "&amp;"
      case "\"": result += "&quot;"
      default: result.append(character)
      }
    }
  }
}
