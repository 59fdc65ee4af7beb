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
///
/// Bytes are looked at and no characters: a client may end its part with one that takes what the proxy writes next, such as its
/// comma, to itself (U+0600 and others that stand before what they belong to).
struct ForwardedEntries: Sequence, IteratorProtocol {
  private var rest: Substring.UTF8View?

  init(_ value: String) {
    rest = value[...].utf8
  }

  mutating func next() -> Substring? {
    guard let text = rest else { return nil }
    let comma = Self.last(UInt8(ascii: ","), in: text)
    rest = comma.map { text[..<$0] }
    return Substring(Self.trimmed(comma.map { text[text.index(after: $0)...] } ?? text))
  }

  /// The node that the `for` of an entry names; nil where there is no such, or more than one (RFC 7239 section 4).
  static func node(of entry: Substring) -> String? {
    var rest: Substring.UTF8View? = entry.utf8
    var node: String?
    let quote = UInt8(ascii: "\"")
    while let text = rest {
      let semicolon = last(UInt8(ascii: ";"), in: text)
      let pair = trimmed(semicolon.map { text[text.index(after: $0)...] } ?? text)
      rest = semicolon.map { text[..<$0] }
      guard Substring(pair.prefix(4)).lowercased() == "for=" else { continue }
      guard node == nil else { return nil }
      let value = pair.dropFirst(4)
      let isQuoted = value.count >= 2 && value.first == quote && value.last == quote
      node = String(Substring(isQuoted ? value.dropFirst().dropLast() : value))
    }
    return node
  }

  /// The last place of a mark that is in no quotation.
  private static func last(_ mark: UInt8, in text: Substring.UTF8View) -> Substring.Index? {
    var isQuoted = false
    for index in text.indices.reversed() {
      if text[index] == UInt8(ascii: "\"") {
        isQuoted.toggle()
      } else if text[index] == mark, !isQuoted {
        return index
      }
    }
    return nil
  }

  private static func trimmed(_ text: Substring.UTF8View) -> Substring.UTF8View {
    let blanks = Set(" \t".utf8)
    let start = text.drop { blanks.contains($0) }
    guard let end = start.lastIndex(where: { !blanks.contains($0) }) else { return start.prefix(0) }
    return start[...end]
  }
}
