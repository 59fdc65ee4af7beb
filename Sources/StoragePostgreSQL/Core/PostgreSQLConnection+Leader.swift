import Storage

extension PostgreSQLConnection {
  struct Found {
    let connection: PostgreSQLConnection
    let host: Int
    /// Nobody of the others is later, as far as they say; false where not all were asked.
    let isSure: Bool
  }

  /// Connects to whichever host of `url` is the latest in history, `known` or later; to that alone which is `known` to be it.
  /// Blocks for as long as each host that does not answer may take.
  ///
  /// Errors: `unavailable` with what each host said.
  static func toLeader(
    _ url: PostgreSQLURL, after known: ServerHistory? = nil, host: Int? = nil,
    connecting: (PostgreSQLURL) throws(StorageError) -> PostgreSQLConnection
  ) throws(StorageError) -> Found {
    let hosts = url.ofEachHost
    var best: (connection: PostgreSQLConnection, host: Int)?
    var failures: [String] = []
    // The one that is known first, and no others where that is it.
    let order = [host].compactMap { $0 } + hosts.indices.filter { $0 != host }
    for place in order {
      do throws(StorageError) {
        let connection = try connecting(hosts[place])
        if let other = connection.later([best?.connection.history, known]) {
          failures.append("\(hosts[place]): \(connection.isOutlived(by: other))")
          continue
        }
        if place == host { return Found(connection: connection, host: place, isSure: true) }
        if best.map({ connection.isBetter(than: $0.connection) }) ?? true { best = (connection, place) }
        // One that took over just now will do. The next one who connects asks all.
        if let known, let history = connection.history, known.isOlder(than: history) {
          return Found(connection: connection, host: place, isSure: false)
        }
      } catch {
        failures.append(error.detail)
      }
    }
    guard let best else {
      throw StorageError(.unavailable, operation: "connect to \(url)", detail: failures.joined(separator: "; "))
    }
    return Found(connection: best.connection, host: best.host, isSure: true)
  }

  private func isBetter(than other: PostgreSQLConnection) -> Bool {
    guard let history else { return false }
    return other.history.map { $0.isOlder(than: history) } ?? true
  }

  private func later(_ others: [ServerHistory?]) -> ServerHistory? {
    guard let history else { return nil }
    return others.compactMap { $0 }.first { history.isOlder(than: $0) }
  }

  private func isOutlived(by other: ServerHistory) -> String {
    "another server has taken its place: its timeline is \(history?.timeline ?? 0), and \(other.timeline) was seen. "
      + "Where that is gone for good the services are restarted"
  }
}
