import JSON

/// Two results of load tests side by side, as the JSON that a run writes says them.
package struct LoadComparison: Sendable {
  /// Why a document cannot be compared, in words for who named it.
  package struct Unreadable: Error, Equatable, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
  }

  private let before: JSONValue
  private let after: JSONValue

  package init(before: JSONValue, after: JSONValue) throws(Unreadable) {
    for (name, result) in [("first", before), ("second", after)] {
      guard result["primary"]?.string != nil, result["latency_ns"]?.members != nil else {
        throw Unreadable(description: "the \(name) file is no result of a load test")
      }
    }
    self.before = before
    self.after = after
  }

  /// What was asked for or run on differently: figures then say less than they seem to.
  package var differences: [String] {
    var found: [String] = []
    for group in ["options", "versions", "machine"] {
      let names = (before[group]?.members ?? []).map(\.name) + (after[group]?.members ?? []).map(\.name)
      var seen: Set<String> = []
      for name in names where seen.insert(name).inserted {
        let (one, other) = (before[group]?[name], after[group]?[name])
        if one != other { found.append("\(group).\(name): \(Self.plain(one)), then \(Self.plain(other))") }
      }
    }
    return found
  }

  /// Name, before, after, and the second as a share of the first.
  package var rows: [[String]] {
    var rows = [row("operations a second", before["rps"], after["rps"]) { LoadReport.fixed($0, 1) }]
    let errors = [before, after].map { $0["error_count"] }
    rows.append(row("errors", errors[0], errors[1]) { LoadReport.fixed($0, 0) })
    for (name, key) in [("server's CPU an operation", "server"), ("load's CPU an operation", "load")] {
      let (one, other) = (Self.cost(before, key), Self.cost(after, key))
      if one != nil || other != nil {
        rows.append(row(name, one.map { .number($0) }, other.map { .number($0) }) { LoadReport.time($0 * 1e9) })
      }
    }
    for series in before["latency_ns"]?.members ?? [] {
      guard let other = after["latency_ns"]?[series.name] else { continue }
      for point in series.value.members ?? [] where point.name != "count" {
        rows.append(row("\(series.name) \(point.name)", point.value, other[point.name]) { LoadReport.time($0) })
      }
    }
    return rows
  }

  package func text() -> String {
    let table = [["", "before", "after", "ratio"]] + rows
    let widths = (0..<4).map { column in table.map { $0[column].count }.max() ?? 0 }
    let lines = table.map { row in
      row.indices.map { column in
        let pad = String(repeating: " ", count: widths[column] - row[column].count)
        return column == 0 ? row[column] + pad : pad + row[column]
      }.joined(separator: "  ")
    }
    let notes = differences.isEmpty ? [] : ["", "Not the same test:"] + differences.map { "  \($0)" }
    return (lines + notes).joined(separator: "\n") + "\n"
  }

  private func row(
    _ name: String, _ one: JSONValue?, _ other: JSONValue?, _ words: (Double) -> String
  ) -> [String] {
    let (one, other) = (Self.number(one), Self.number(other))
    let ratio = one.flatMap { one in other.flatMap { one > 0 ? LoadReport.fixed($0 / one, 2) : nil } }
    return [name, one.map(words) ?? "-", other.map(words) ?? "-", ratio ?? "-"]
  }

  /// Seconds of processor for each operation; nil when nobody measured.
  private static func cost(_ result: JSONValue, _ key: String) -> Double? {
    guard let seconds = number(result["cpu"]?["\(key)_s"]), let count = number(result["operations"]), count > 0 else {
      return nil
    }
    return seconds / count
  }

  private static func number(_ value: JSONValue?) -> Double? {
    switch value {
    case .integer(let number): Double(number)
    case .number(let number): number
    default: nil
    }
  }

  private static func plain(_ value: JSONValue?) -> String {
    guard let value, value != .null else { return "nothing" }
    return value.string ?? String(decoding: value.encoded(), as: UTF8.self)
  }
}
