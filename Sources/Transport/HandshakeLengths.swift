package import NIOCore
internal import TLS

/// How long a client's handshake messages say that they are. OpenSSL makes room for that as soon as it is said, for a first
/// message up to 128 KiB, whether more comes or not.
///
/// Records are gone through as far as they can be read: what is encrypted says nothing here, and has its own bounds.
/// Source: RFC 8446 §4, §5.1; RFC 5246 §6.2.1, §7.4.
package struct HandshakeLengths {
  private enum ContentType {
    static let changeCipherSpec: UInt8 = 20
    static let handshake: UInt8 = 22
    /// A hello of SSL 2 begins with such a byte, whose records are others (RFC 5246 §E.2).
    static let oldest: UInt8 = 0x80
  }

  /// RFC 8446 §4.
  private static let certificate: UInt8 = 11

  /// The header of a record that has begun to come.
  private var header: [UInt8] = []
  /// What is left of a record, and whether that is a message's.
  private var left = 0
  private var isHandshake = false
  /// The type and the length of a message that has begun to come.
  private var start: [UInt8] = []
  private var messageLeft = 0
  /// What comes is encrypted, though it looks as before.
  private var isOver = false

  package init() {}

  /// Looks at the next bytes. False: a message is longer than any of a client's is, or they are no records of TLS.
  ///
  /// - Parameter isOldVersion: whether the handshake is of TLS 1.2, where a change of the cipher ends what can be read.
  package mutating func allow(_ bytes: ByteBuffer, isOldVersion: Bool) -> Bool {
    var rest = bytes.readableBytesView
    while !isOver, let next = rest.first {
      if left == 0 {
        rest.removeFirst()
        guard !header.isEmpty || next < ContentType.oldest else { return false }
        beginRecord(next, isOldVersion)
      } else if !isHandshake || messageLeft > 0 {
        let count = min(left, rest.count, isHandshake ? messageLeft : left)
        rest.removeFirst(count)
        left -= count
        if isHandshake { messageLeft -= count }
      } else {
        rest.removeFirst()
        left -= 1
        guard beginMessage(next) else { return false }
      }
    }
    return true
  }

  private mutating func beginRecord(_ byte: UInt8, _ isOldVersion: Bool) {
    header.append(byte)
    guard header.count == 5 else { return }
    left = Int(header[3]) << 8 | Int(header[4])
    isHandshake = header[0] == ContentType.handshake
    isOver = header[0] == ContentType.changeCipherSpec && isOldVersion
    header.removeAll(keepingCapacity: true)
  }

  private mutating func beginMessage(_ byte: UInt8) -> Bool {
    start.append(byte)
    guard start.count == 4 else { return true }
    messageLeft = start[1...].reduce(0) { $0 << 8 | Int($1) }
    let isCertificate = start[0] == Self.certificate
    start.removeAll(keepingCapacity: true)
    return messageLeft <= (isCertificate ? TLS.Limits.clientCertificateBytes : Limits.handshakeMessageBytes)
  }
}
