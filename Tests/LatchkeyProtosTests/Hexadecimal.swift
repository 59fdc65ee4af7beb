import NIOCore

/// The bytes that hexadecimal digits stand for.
func bytes(hex: String) -> [UInt8] {
  let digits = Array(hex.utf8)
  return stride(from: 0, to: digits.count - 1, by: 2).map { index in
    UInt8(String(decoding: digits[index...index + 1], as: UTF8.self), radix: 16) ?? 0
  }
}

func buffer(hex: String) -> ByteBuffer { ByteBuffer(bytes: bytes(hex: hex)) }
