import Glibc
import Histogram

/// The pictures of a report.
extension LoadReport {
  /// Latency by percentile, the whole operation and its steps; the axis stretches towards 100%, one nine a step.
  package func latencyPlot() -> Drawing {
    let shown = names.filter { $0 != Self.lateness && recorder.series[$0] != nil }
    let count = Double(recorder.series[primary]?.totalCount ?? 0)
    // Beyond one in `count` there is nothing to show.
    let nines = max(1, min(5, count > 1 ? log10(count) : 1))
    func points(_ histogram: Histogram<UInt64>) -> [(x: Double, y: Double)] {
      (0...240).map { step in
        let nine = Double(step) / 240 * nines
        return (nine / nines, Double(histogram.valueAtPercentile(100 * (1 - pow(10, -nine)))))
      }
    }
    let lines = zip(shown, Plot.colours).compactMap { name, colour in
      latency(name).map { Plot.Line(name: name, colour: colour, points: points($0)) }
    }
    let highest = lines.flatMap(\.points).map(\.y).max() ?? 0
    let (unit, name) = Self.unit(highest)
    let ticks = [(0.0, "0%"), (0.30103, "50%"), (1, "90%"), (2, "99%"), (3, "99.9%"), (4, "99.99%"), (5, "99.999%")]
      .filter { $0.0 <= nines }
      .map { ($0.0 / nines, $0.1) }
    var plot = Plot(
      title: "Latency by percentile", horizontal: "percentile of \(primary)s", vertical: name, ticks: ticks)
    plot.lines = lines.map { line in
      Plot.Line(name: line.name, colour: line.colour, points: line.points.map { ($0.x, $0.y / unit) })
    }
    return plot.drawing()
  }

  /// Operations that ended in each second, the ramp included.
  package func throughputPlot() -> Drawing {
    // What ended late in the last, partial second would look like a fall.
    let seconds = recorder.seconds.prefix(max(1, Int(ramp.inSeconds + measured.inSeconds)))
    let last = Double(max(1, seconds.count))
    func points(_ value: (LoadRecorder.Second) -> Int) -> [(x: Double, y: Double)] {
      seconds.enumerated().flatMap { index, second in
        [(Double(index) / last, Double(value(second))), (Double(index + 1) / last, Double(value(second)))]
      }
    }
    let step =
      [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400].first { seconds.count / $0 <= 10 } ?? 28_800
    let ticks = stride(from: 0, through: seconds.count, by: step).map { (Double($0) / last, "\($0)") }
    var plot = Plot(
      title: "Throughput",
      horizontal: "seconds since the start",
      vertical: "\(primary)s in a second",
      ticks: ticks
    )
    plot.lines = [Plot.Line(name: "done", colour: Plot.colours[0], points: points(\.done))]
    if recorder.errorCount > 0 {
      plot.lines.append(Plot.Line(name: "failed", colour: Plot.failure, points: points(\.failed)))
    }
    if ramp > .zero, ramp.inSeconds < last { plot.mark = (ramp.inSeconds / last, "ramp ends") }
    return plot.drawing()
  }

  private static func unit(_ nanoseconds: Double) -> (Double, String) {
    switch nanoseconds {
    case ..<1e6: (1e3, "microseconds")
    case ..<1e10: (1e6, "milliseconds")
    default: (1e9, "seconds")
    }
  }

  /// The next of 1, 2, 2.5 or 5 times a power of ten.
  static func niceCeiling(_ value: Double) -> Double {
    guard value > 0, value.isFinite else { return 1 }
    var unit = 1e-6
    while unit * 10 < value { unit *= 10 }
    return [1, 2, 2.5, 5, 10].map { $0 * unit }.first { $0 >= value } ?? value
  }

  /// An axis from 0 to `highest` or a little beyond: its steps, and the decimals that say them exactly.
  static func scale(to highest: Double) -> (step: Double, count: Int, digits: Int) {
    let step = niceCeiling(highest / 5)
    let count = highest.isFinite ? max(1, Int((highest / step).rounded(.up))) : 1
    let digits = (0...7).first { digits in
      let scaled = step * pow(10, Double(digits))
      return abs(scaled - scaled.rounded()) < 1e-6 * scaled
    }
    return (step, count, digits ?? 7)
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

/// Lines over one axis each way, with a legend.
private struct Plot {
  struct Line {
    var name: String
    var colour: Drawing.Colour
    /// x is a share of the width.
    var points: [(x: Double, y: Double)]
  }

  /// Told apart also by who sees few colours (Okabe and Ito).
  static let colours = [0x0072B2, 0xE69F00, 0x009E73, 0xCC79A7, 0x56B4E9, 0x7A5C2E].map(Drawing.Colour.init)
  static let failure = Drawing.Colour(0xD55E00)

  var title: String
  var horizontal: String
  var vertical: String
  var ticks: [(Double, String)]
  var lines: [Line] = []
  /// A place on the horizontal axis, and what happens there.
  var mark: (Double, String)?

  init(title: String, horizontal: String, vertical: String, ticks: [(Double, String)]) {
    self.title = title
    self.horizontal = horizontal
    self.vertical = vertical
    self.ticks = ticks
  }

  func drawing() -> Drawing {
    var drawing = Drawing(width: 760, height: 340)
    let (left, right, top, bottom) = (76.0, 736.0, 72.0, 286.0)
    let scale = LoadReport.scale(to: lines.flatMap(\.points).map(\.y).max() ?? 0)
    let ceiling = scale.step * Double(scale.count)
    func x(_ share: Double) -> Double { left + share * (right - left) }
    func y(_ value: Double) -> Double { bottom - value / ceiling * (bottom - top) }
    let (ink, faint) = (Drawing.Colour(0x18181B), Drawing.Colour(0xE4E4E7))

    drawing.text("\(title), \(vertical)", left, 26, size: 16, .start, ink, isBold: true)
    var place = left
    for line in lines where lines.count > 1 || line.name != "done" {
      drawing.marks.append(.line([.init(x: place, y: 48), .init(x: place + 18, y: 48)], line.colour, width: 3))
      drawing.text(line.name, place + 24, 52)
      place += 24 + Double(line.name.count) * 7.5 + 18
    }
    for step in 0...scale.count {
      let value = scale.step * Double(step)
      drawing.marks.append(.line([.init(x: left, y: y(value)), .init(x: right, y: y(value))], faint, width: 1))
      drawing.text(Self.grouped(LoadReport.fixed(value, scale.digits)), left - 8, y(value) + 4, .end)
    }
    drawing.text(horizontal, (left + right) / 2, bottom + 42, .middle)
    for (share, label) in ticks {
      drawing.marks.append(.line([.init(x: x(share), y: bottom), .init(x: x(share), y: bottom + 5)], ink, width: 1))
      drawing.text(label, x(share), bottom + 20, .middle)
    }
    if let mark {
      drawing.marks.append(
        .line([.init(x: x(mark.0), y: top), .init(x: x(mark.0), y: bottom)], Drawing.Colour(0xA1A1AA), width: 1))
      drawing.text(mark.1, x(mark.0) + 5, top + 12, size: 11)
    }
    drawing.marks.append(.line([.init(x: left, y: bottom), .init(x: right, y: bottom)], ink, width: 1))
    for line in lines.reversed() {
      drawing.marks.append(.line(line.points.map { .init(x: x($0.x), y: y($0.y)) }, line.colour, width: 2))
    }
    return drawing
  }

  /// 12000 as 12,000.
  private static func grouped(_ number: String) -> String {
    guard number.count > 4, number.allSatisfy(\.isNumber) else { return number }
    var text = ""
    for (index, digit) in number.enumerated() {
      if index > 0, (number.count - index) % 3 == 0 { text += "," }
      text.append(digit)
    }
    return text
  }
}
