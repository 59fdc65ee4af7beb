/// The proxies that may say for whom they ask, and how they say it.
///
/// None by default: then a caller is who opened the connection, whatever it says of itself.
package struct TrustedProxies: Sendable, Equatable {
  /// The field in which proxies that share a connection between clients name the client of a request.
  package enum Field: String, Sendable, CaseIterable {
    case forwardedFor = "x-forwarded-for"
    /// RFC 7239.
    case forwarded
    case none
  }

  package var networks: [NetworkRange]
  /// Only this one is read: of another that a proxy passes on unseen, nobody knows who wrote it.
  package var field: Field
  /// Their connections have to begin with the PROXY protocol.
  package var requiresHeader: Bool

  package init(_ networks: [NetworkRange] = [], field: Field = .forwardedFor, requiresHeader: Bool = false) {
    self.networks = networks
    self.field = field
    self.requiresHeader = requiresHeader
  }

  package func trusts(_ address: NetworkAddress) -> Bool {
    networks.contains { $0.contains(address) }
  }

  /// The client of a request that came from a trusted proxy: the last address in the field that is no trusted proxy's.
  /// What is left of it was written by the client or by who knows whom. Where an entry names no address, the proxy is
  /// taken that wrote it.
  ///
  /// - Parameter values: of all fields of that name, in order.
  package func client(namedBy values: [String], proxy: NetworkAddress) -> NetworkAddress {
    var nearest = proxy
    var hops = 0
    for value in values.reversed() {
      for entry in ForwardedEntries(value) {
        hops += 1
        let text = field == .forwarded ? ForwardedEntries.node(of: entry) : String(entry)
        guard hops <= Limits.hops, let text, let address = NetworkAddress(node: text) else { return nearest }
        guard trusts(address) else { return address }
        nearest = address
      }
    }
    return nearest
  }
}

/// The entries of one field, from the last to the first: so a quotation that a client left open swallows nothing that
/// a proxy wrote behind it.
struct ForwardedEntries: Sequence, IteratorProtocol {
  private var rest: Substring?

  init(_ value: String) {
    rest = value[...]
  }

  mutating func next() -> Substring? {
    guard let text = rest else { return nil }
    let comma = Self.last(",", in: text)
    rest = comma.map { text[..<$0] }
    return Self.trimmed(comma.map { text[text.index(after: $0)...] } ?? text)
  }

  /// The node that the `for` of an entry names; nil where there is no such, or more than one (RFC 7239 section 4).
  static func node(of entry: Substring) -> String? {
    var rest: Substring? = entry
    var node: String?
    while let text = rest {
      let semicolon = last(";", in: text)
      let pair = trimmed(semicolon.map { text[text.index(after: $0)...] } ?? text)
      rest = semicolon.map { text[..<$0] }
      guard pair.prefix(4).lowercased() == "for=" else { continue }
      guard node == nil else { return nil }
      let value = pair.dropFirst(4)
      let isQuoted = value.count >= 2 && value.first == "\"" && value.last == "\""
      node = String(isQuoted ? value.dropFirst().dropLast() : value)
    }
    return node
  }

  /// The last place of a mark that is in no quotation.
  private static func last(_ mark: Character, in text: Substring) -> Substring.Index? {
    var isQuoted = false
    for index in text.indices.reversed() {
      if text[index] == "\"" {
        isQuoted.toggle()
      } else if text[index] == mark, !isQuoted {
        return index
      }
    }
    return nil
  }

  private static func trimmed(_ text: Substring) -> Substring {
    let start = text.drop { $0 == " " || $0 == "\t" }
    guard let end = start.lastIndex(where: { $0 != " " && $0 != "\t" }) else { return start.prefix(0) }
    return start[...end]
  }
}
