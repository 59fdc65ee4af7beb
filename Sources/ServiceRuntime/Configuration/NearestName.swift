/// Finds what somebody meant to write.
enum NearestName {
  /// The candidate with the fewest single-character edits from `name`; nil when none is near enough to be meant.
  static func find(_ name: String, among candidates: [String]) -> String? {
    let limit = max(2, name.count / 3)
    let best = candidates.map { (distance($0, name), $0) }.min { $0 < $1 }
    guard let best, best.0 <= limit else { return nil }
    return best.1
  }

  /// Levenshtein's distance, ignoring case.
  private static func distance(_ left: String, _ right: String) -> Int {
    let left = Array(left.lowercased())
    let right = Array(right.lowercased())
    var previous = Array(0...right.count)
    for (row, character) in left.enumerated() {
      var current = [row + 1]
      for (column, other) in right.enumerated() {
        current.append(
          min(previous[column + 1] + 1, current[column] + 1, previous[column] + (character == other ? 0 : 1))
        )
      }
      previous = current
    }
    return previous[right.count]
  }
}
