internal import GRPC

extension Metadata {
  /// The entries as fields of a header block, binary values encoded. Leaves out what the protocol reserves or cannot
  /// carry: a name or value that would change how the peer reads the block must not get through, wherever it came from.
  var carriedFields: [(name: String, value: [UInt8])] {
    entries.compactMap { entry in
      guard Self.isCarried(entry.name) else { return nil }
      switch entry.value {
      case .ascii(let value):
        guard !entry.name.utf8.suffix(4).elementsEqual("-bin".utf8),
          value.utf8.allSatisfy({ (0x20...0x7e).contains($0) })
        else { return nil }
        return (entry.name, Array(value.utf8))
      case .binary(let value):
        guard entry.name.utf8.suffix(4).elementsEqual("-bin".utf8) else { return nil }
        return (entry.name, BinaryMetadata.encode(value))
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
