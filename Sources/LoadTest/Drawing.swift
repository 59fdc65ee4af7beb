import Glibc
import QRCode

/// A picture as marks on a canvas, the origin at the top left; drawn as SVG or as PNG, which look the same.
package struct Drawing: Sendable {
  struct Colour: Sendable, Equatable {
    let red: UInt8
    let green: UInt8
    let blue: UInt8

    /// Such as 0x2563EB.
    init(_ code: UInt32) {
      red = UInt8(truncatingIfNeeded: code >> 16)
      green = UInt8(truncatingIfNeeded: code >> 8)
      blue = UInt8(truncatingIfNeeded: code)
    }

    var svg: String {
      "#" + [red, green, blue].map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
  }

  struct Point: Sendable, Equatable {
    var x: Double
    var y: Double
  }

  enum Anchor: String, Sendable {
    case start
    case middle
    case end
  }

  enum Mark: Sendable {
    case line([Point], Colour, width: Double)
    /// A filled rectangle between two corners.
    case box(Point, Point, Colour)
    /// `at` is on the baseline.
    case text(String, at: Point, size: Double, Anchor, Colour, isBold: Bool)
  }

  let width: Double
  let height: Double
  /// Later marks cover earlier ones.
  var marks: [Mark] = []

  init(width: Double, height: Double) {
    self.width = width
    self.height = height
  }

  mutating func text(
    _ text: String,
    _ x: Double,
    _ y: Double,
    size: Double = 12,
    _ anchor: Anchor = .start,
    _ colour: Colour = Colour(0x3F3F46),
    isBold: Bool = false
  ) {
    marks.append(.text(text, at: Point(x: x, y: y), size: size, anchor, colour, isBold: isBold))
  }

  // MARK: SVG

  package func svg() -> String {
    func number(_ value: Double) -> String { LoadReport.fixed(value, 1) }
    func list(_ points: [Point]) -> String { points.map { "\(number($0.x)),\(number($0.y))" }.joined(separator: " ") }
    var svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 \(number(width)) \(number(height))\" "
    svg += "font-family=\"system-ui,sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    for mark in marks {
      switch mark {
      case .line(let points, let colour, let width):
        svg += "<polyline points=\"\(list(points))\" fill=\"none\" stroke=\"\(colour.svg)\" "
        svg += "stroke-width=\"\(number(width))\" stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n"
      case .box(let one, let other, let colour):
        svg += "<rect x=\"\(number(min(one.x, other.x)))\" y=\"\(number(min(one.y, other.y)))\" "
        svg += "width=\"\(number(abs(other.x - one.x)))\" height=\"\(number(abs(other.y - one.y)))\" "
        svg += "fill=\"\(colour.svg)\"/>\n"
      case .text(let text, let at, let size, let anchor, let colour, let isBold):
        svg += "<text x=\"\(number(at.x))\" y=\"\(number(at.y))\" font-size=\"\(number(size))\" "
        svg += "text-anchor=\"\(anchor.rawValue)\" fill=\"\(colour.svg)\"\(isBold ? " font-weight=\"600\"" : "")>"
        svg += "\(LoadReport.escaped(text))</text>\n"
      }
    }
    return svg + "</svg>\n"
  }

  // MARK: PNG

  /// With `scale` pixels for each unit of the canvas.
  package func png(scale: Double = 2) throws(QRCodeError) -> [UInt8] {
    var canvas = Canvas(width: Int((width * scale).rounded()), height: Int((height * scale).rounded()))
    func scaled(_ point: Point) -> Point { Point(x: point.x * scale, y: point.y * scale) }
    for mark in marks {
      switch mark {
      case .line(let points, let colour, let width):
        canvas.stroke([points.map(scaled)], width: width * scale, colour)
      case .box(let one, let other, let colour):
        canvas.fill(scaled(one), scaled(other), colour)
      case .text(let text, let at, let size, let anchor, let colour, let isBold):
        let written = StrokeFont.strokes(of: text)
        // Capitals of common fonts are about 0.72 of their size high.
        let unit = 0.72 * size * scale / StrokeFont.capitalHeight
        let left = at.x * scale - written.width * unit * (anchor == .start ? 0 : anchor == .middle ? 0.5 : 1)
        let strokes = written.strokes.map { stroke in
          stroke.map { Point(x: left + $0.x * unit, y: at.y * scale - $0.y * unit) }
        }
        canvas.stroke(strokes, width: size * scale * (isBold ? 0.13 : 0.09), colour)
      }
    }
    return try PNGImage(width: canvas.width, height: canvas.height, pixels: .colour, rows: canvas.rows()).encoded()
  }

  /// Pixels, white at first.
  private struct Canvas {
    let width: Int
    let height: Int
    private var bytes: [UInt8]

    init(width: Int, height: Int) {
      self.width = width
      self.height = height
      bytes = [UInt8](repeating: 255, count: 3 * width * height)
    }

    func rows() -> [[UInt8]] {
      (0..<height).map { Array(bytes[(3 * $0 * width)..<(3 * ($0 + 1) * width)]) }
    }

    mutating func fill(_ one: Point, _ other: Point, _ colour: Colour) {
      let (left, right) = (min(one.x, other.x), max(one.x, other.x))
      let (top, bottom) = (min(one.y, other.y), max(one.y, other.y))
      for y in rows(from: top, to: bottom) {
        let down = min(Double(y) + 1, bottom) - max(Double(y), top)
        for x in columns(from: left, to: right) {
          blend(x, y, colour, down * (min(Double(x) + 1, right) - max(Double(x), left)))
        }
      }
    }

    /// Strokes with round ends and joints; where they meet, the colour is not laid on twice.
    mutating func stroke(_ strokes: [[Point]], width: Double, _ colour: Colour) {
      var covered: [Int: Double] = [:]
      let reach = width / 2 + 1
      for stroke in strokes {
        for (from, to) in zip(stroke, stroke.dropFirst()) {
          let along = Point(x: to.x - from.x, y: to.y - from.y)
          let square = along.x * along.x + along.y * along.y
          for y in rows(from: min(from.y, to.y) - reach, to: max(from.y, to.y) + reach) {
            // Only the part of the row that the segment comes near to.
            var (low, high) = (min(from.x, to.x), max(from.x, to.x))
            if abs(along.y) > 0.01, abs(along.x) > reach {
              let middle = from.x + (Double(y) + 0.5 - from.y) / along.y * along.x
              let spread = (reach + 0.5) * (abs(along.x / along.y) + 1)
              (low, high) = (max(low, middle - spread), min(high, middle + spread))
            }
            for x in columns(from: low - reach, to: high + reach) {
              let away = Point(x: Double(x) + 0.5 - from.x, y: Double(y) + 0.5 - from.y)
              let share = square == 0 ? 0 : max(0, min(1, (away.x * along.x + away.y * along.y) / square))
              let distance = hypot(away.x - share * along.x, away.y - share * along.y)
              let coverage = min(1, max(0, width / 2 + 0.5 - distance)) * min(1, width)
              if coverage > 0 { covered[y * self.width + x] = max(covered[y * self.width + x] ?? 0, coverage) }
            }
          }
        }
      }
      for (place, coverage) in covered { blend(place % self.width, place / self.width, colour, coverage) }
    }

    private func rows(from top: Double, to bottom: Double) -> Range<Int> { Self.clamped(top, bottom, height) }

    private func columns(from left: Double, to right: Double) -> Range<Int> { Self.clamped(left, right, width) }

    private static func clamped(_ low: Double, _ high: Double, _ count: Int) -> Range<Int> {
      guard low.isFinite, high.isFinite, low < high else { return 0..<0 }
      let first = Int(max(0, min(Double(count), low.rounded(.down))))
      return first..<max(first, Int(max(0, min(Double(count), high.rounded(.up)))))
    }

    private mutating func blend(_ x: Int, _ y: Int, _ colour: Colour, _ coverage: Double) {
      let at = 3 * (y * width + x)
      for (offset, part) in [colour.red, colour.green, colour.blue].enumerated() {
        let mixed = Double(bytes[at + offset]) * (1 - coverage) + Double(part) * coverage
        bytes[at + offset] = UInt8(max(0, min(255, mixed.rounded())))
      }
    }
  }
}
