internal import GRPC
internal import HTTP2

extension HTTP2FieldList {
  /// Appends metadata, encoding binary values. Leaves out what the protocol reserves or cannot carry: a name or value
  /// that would change how the peer reads the block must not get through, wherever it came from.
  mutating func add(_ metadata: Metadata) {
    for entry in metadata.entries where Self.isCarried(entry.name) {
      switch entry.value {
      case .ascii(let value):
        guard !entry.name.utf8.suffix(4).elementsEqual("-bin".utf8),
          value.utf8.allSatisfy({ (0x20...0x7e).contains($0) })
        else { continue }
        add(entry.name.utf8, value.utf8, sensitive: entry.name == "authorization")
      case .binary(let value):
        guard entry.name.utf8.suffix(4).elementsEqual("-bin".utf8) else { continue }
        add(entry.name.utf8, BinaryMetadata.encode(value))
      }
    }
  }

  /// Source: gRPC over HTTP/2, "Custom-Metadata". Of the reserved names two are metadata in all but name.
  private static func isCarried(_ name: String) -> Bool {
    guard !name.isEmpty,
      name.utf8.allSatisfy({ byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
          UInt8(ascii: "_"), UInt8(ascii: "."):
          true
        default: false
        }
      })
    else { return false }
    switch name {
    case "grpc-accept-encoding", "grpc-retry-pushback-ms": return true
    case "te", "content-type", "connection", "host", "transfer-encoding", "keep-alive", "upgrade",
      "proxy-connection", "content-length":
      return false
    default: return !name.utf8.starts(with: "grpc-".utf8)
    }
  }
}
