/// A picture as marks on a canvas, the origin at the top left; drawn as SVG.
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
}
