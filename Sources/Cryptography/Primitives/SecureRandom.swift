import CCrypto

/// Random bytes from OpenSSL's generator, which the kernel seeds.
package enum SecureRandom {
  /// `count` unpredictable bytes.
  package static func bytes(_ count: Int) -> [UInt8] {
    precondition(count >= 0 && count <= Int(Int32.max), "the number of random bytes is decided by code, not by input")
    return unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      // RAND_bytes writes exactly `count` bytes into the buffer, which has that capacity.
      let status = unsafe RAND_bytes(buffer.baseAddress, Int32(count))
      // Without randomness no secret can be made: going on would be worse than ending.
      precondition(status == 1 || count == 0, "the system's random generator failed")
      initialized = count
    }
  }
}
