/// HMAC with SHA-256 (RFC 2104).
package enum HMACSHA256 {
  private static let blockSize = 64

  /// The 32-byte authentication code of `message` under `key`. Compare codes with ``ConstantTime`` only.
  package static func authenticate(_ message: [UInt8], key: [UInt8]) -> [UInt8] {
    // Two hashes cost less than EVP_MAC, which must be set up for each key.
    var block = key.count > blockSize ? SHA256Hash.hash(key) : key
    block.append(contentsOf: repeatElement(0, count: blockSize - block.count))
    let inner = SHA256Hash.hash(block.map { $0 ^ 0x36 } + message)
    return SHA256Hash.hash(block.map { $0 ^ 0x5C } + inner)
  }
}
