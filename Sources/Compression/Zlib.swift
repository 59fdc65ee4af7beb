internal import CZlib

/// The zlib format (RFC 1950) and the checksum that goes with it in files such as PNG.
package enum Zlib {
  /// The smallest form that zlib finds.
  package static func compress(_ bytes: [UInt8]) throws(CompressionError) -> [UInt8] {
    let bound = compressBound(UInt(bytes.count))
    var result = Z_OK
    // zlib writes at most `length` bytes into the buffer, reads `bytes.count` from the source, and keeps neither.
    let compressed = unsafe [UInt8](unsafeUninitializedCapacity: Int(bound)) { buffer, count in
      var length = bound
      result = unsafe bytes.withUnsafeBufferPointer { source in
        unsafe compress2(buffer.baseAddress, &length, source.baseAddress, UInt(source.count), Z_BEST_COMPRESSION)
      }
      count = result == Z_OK ? Int(length) : 0
    }
    guard result == Z_OK else {
      throw result == Z_MEM_ERROR ? .outOfMemory : .library(operation: "compress2", code: result)
    }
    return compressed
  }

  /// CRC-32 as ISO/IEC 15948 annex D defines it.
  package static func crc32(_ bytes: [UInt8]) -> UInt32 {
    // Reads `bytes.count` bytes during the call and keeps nothing.
    unsafe bytes.withUnsafeBufferPointer { bytes in
      UInt32(truncatingIfNeeded: unsafe CZlib.crc32(0, bytes.baseAddress, UInt32(truncatingIfNeeded: bytes.count)))
    }
  }
}
