import LatchkeyModel

/// What came of what, through chains of any length (R44): a row for each descendant and each of its ancestors, so that a
/// chain is ended by one look-up, also when links in its middle are over and forgotten.
package protocol LineageRows {
  func ancestors(of member: LineageMember) async throws(StorageError) -> [LineageMember]

  func descendants(of member: LineageMember) async throws(StorageError) -> [LineageMember]

  /// Does nothing when it is known.
  func insert(_ member: LineageMember, cameOf ancestor: LineageMember) async throws(StorageError)

  /// The member came of all that `source` came of.
  func insert(_ member: LineageMember, cameOfAncestorsOf source: LineageMember) async throws(StorageError)

  /// What came of `earlier` came of the member.
  func insert(descendantsOf earlier: LineageMember, cameOf member: LineageMember) async throws(StorageError)

  /// What a member came of.
  func remove(ancestorsOf member: LineageMember) async throws(StorageError)
}

/// A link of a chain.
package enum LineageMember: Sendable, Hashable {
  case session(SessionID)
  /// By the id of its QR session.
  case code(String)
  case transfer(TransferID)
  case unlock(Unlock.Kind, key: String)
  case identity(AccountIdentifier.Kind, value: String)

  /// As it is stored: a letter for what it is, then its name.
  package var bytes: [UInt8] {
    switch self {
    case .session(let id): [UInt8(ascii: "s")] + id.bytes
    case .code(let id): Array("q\(id)".utf8)
    case .transfer(let id): [UInt8(ascii: "t")] + id.bytes
    case .unlock(let kind, let key): Array("u\(kind.rawValue) \(key)".utf8)
    case .identity(let kind, let value): Array("i\(kind.rawValue) \(value)".utf8)
    }
  }

  /// Nil for what no member is stored as in a database of this cell.
  package init?(bytes: [UInt8], in cell: Cell) {
    let name = Array(bytes.dropFirst())
    let words = { String(decoding: name, as: UTF8.self).split(separator: " ", maxSplits: 1).map(String.init) }
    switch bytes.first {
    case UInt8(ascii: "s"):
      guard let id = SessionID(bytes: name, in: cell) else { return nil }
      self = .session(id)
    case UInt8(ascii: "q"): self = .code(String(decoding: name, as: UTF8.self))
    case UInt8(ascii: "t"):
      guard let id = TransferID(bytes: name, in: cell) else { return nil }
      self = .transfer(id)
    case UInt8(ascii: "u"):
      let words = words()
      guard words.count == 2, let kind = Int64(words[0]).flatMap({ Unlock.Kind(rawValue: $0) }) else { return nil }
      self = .unlock(kind, key: words[1])
    case UInt8(ascii: "i"):
      let words = words()
      guard words.count == 2, let kind = Int64(words[0]).flatMap({ AccountIdentifier.Kind(rawValue: $0) }) else {
        return nil
      }
      self = .identity(kind, value: words[1])
    default: return nil
    }
  }
}
