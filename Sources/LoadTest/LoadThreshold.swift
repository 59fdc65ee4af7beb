/// A condition that fails a load test, such as `p99>5ms`, `redeem.p99.9>20ms`, `errors>0`, `errors>0.1%` or `rps<1000`.
package struct LoadThreshold: Sendable, Equatable {
  package enum Metric: Sendable, Equatable {
    case percentile(Double)
    case mean
    case max
    case errors
    case errorShare
    case rps
  }

  package enum Relation: String, Sendable, CaseIterable {
    // The longer first: a reader tries them in this order.
    case atLeast = ">="
    case atMost = "<="
    case above = ">"
    case below = "<"
  }

  /// Why a text is no threshold, in words for who wrote it.
  package struct Malformed: Error, Equatable, CustomStringConvertible {
    package let description: String
  }

  package let text: String
  /// Nil is the operation itself.
  package let series: String?
  package let metric: Metric
  package let relation: Relation
  /// Nanoseconds, a count, a share of 1, or operations in a second.
  package let value: Double

  package init(_ text: String) throws(Malformed) {
    let plain = text.filter { !$0.isWhitespace }
    guard let relation = Relation.allCases.first(where: { plain.contains($0.rawValue) }) else {
      throw Malformed(description: "\"\(text)\" compares nothing: write such as p99>5ms, errors>0 or rps<1000")
    }
    let start = plain.firstIndex { $0 == ">" || $0 == "<" } ?? plain.endIndex
    let name = plain[..<start]
    let amount = plain[start...].dropFirst(relation.rawValue.count)
    let dot = name.firstIndex(of: ".").flatMap { dot in name[..<dot].allSatisfy(\.isLetter) ? dot : nil }
    series = dot.map { String(name[..<$0]) }
    let key = dot.map { name[name.index(after: $0)...] } ?? name
    self.text = plain
    self.relation = relation
    switch key {
    case "errors" where series == nil:
      metric = amount.hasSuffix("%") ? .errorShare : .errors
      let digits = amount.hasSuffix("%") ? amount.dropLast() : amount
      guard let number = Self.number(digits) else { throw Self.malformed(text, "a count, or a share such as 0.1%") }
      value = metric == .errorShare ? number / 100 : number
    case "rps" where series == nil:
      metric = .rps
      guard let number = Self.number(amount) else { throw Self.malformed(text, "operations in a second") }
      value = number
    default:
      if key == "mean" {
        metric = .mean
      } else if key == "max" {
        metric = .max
      } else if key.first == "p", let percent = Self.number(key.dropFirst()), percent <= 100 {
        metric = .percentile(percent)
      } else {
        throw Malformed(description: "\"\(text)\": \"\(name)\" is none of p50 to p100, mean, max, errors, rps")
      }
      guard let nanoseconds = Self.time(amount) else { throw Self.malformed(text, "a time with its unit, such as 5ms") }
      value = nanoseconds
    }
  }

  /// Holds where no condition on errors was named: one operation in a hundred may fail.
  package static let standard = LoadThreshold(
    text: "errors>1%", series: nil, metric: .errorShare, relation: .above, value: 0.01)

  private init(text: String, series: String?, metric: Metric, relation: Relation, value: Double) {
    self.text = text
    self.series = series
    self.metric = metric
    self.relation = relation
    self.value = value
  }

  /// Whether `actual` fails the test. Nothing measured (NaN) fails it too: it proves nothing.
  package func isCrossed(by actual: Double) -> Bool {
    if actual.isNaN { return true }
    return switch relation {
    case .above: actual > value
    case .atLeast: actual >= value
    case .below: actual < value
    case .atMost: actual <= value
    }
  }

  private static func malformed(_ text: String, _ wanted: String) -> Malformed {
    Malformed(description: "\"\(text)\": the right side is \(wanted)")
  }

  private static func number(_ text: Substring) -> Double? {
    guard text.first?.isNumber == true, let value = Double(text), value.isFinite else { return nil }
    return value
  }

  private static func time(_ text: Substring) -> Double? {
    for (unit, factor) in [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)] where text.hasSuffix(unit) {
      return number(text.dropLast(unit.count)).map { $0 * factor }
    }
    return nil
  }
}
