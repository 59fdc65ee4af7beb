import Glibc

/// The system's own words for what a call failed with.
package enum SystemError {
  /// `code` is `errno`.
  package static func text(_ code: Int32) -> String {
    var buffer = [CChar](repeating: 0, count: 128)
    // The POSIX strerror_r writes at most `count` bytes, NUL included, into the array.
    unsafe buffer.withUnsafeMutableBufferPointer { buffer in
      guard let start = buffer.baseAddress else { return }
      _ = unsafe strerror_r(code, start, buffer.count)
    }
    return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
