import CSSL
internal import NIOCore

/// What OpenSSL reads from and writes to in place of a socket: one buffer each way, without a copy between.
///
/// The C object belongs to the `SSL` that it is handed to, which frees it; this object must outlive that `SSL`.
final class ByteBufferBIO {
  /// Ciphertext from the peer that OpenSSL has not taken yet.
  var input = ByteBuffer()
  /// Ciphertext for the peer.
  var output = ByteBuffer()

  /// A new C object over these buffers; nil when memory is short. The caller owns it.
  func makeBIO() -> OpaquePointer? {
    guard let method = unsafe Self.method.pointer, let bio = unsafe BIO_new(method) else { return nil }
    // The pointer is unretained: `TLSSession` keeps this object until after its `SSL_free`.
    unsafe BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
    unsafe BIO_set_init(bio, 1)
    return unsafe bio
  }

  /// Moves up to `count` bytes of `input` to `destination`; answers how many.
  private func read(into destination: UnsafeMutablePointer<CChar>, count: Int) -> Int {
    let length = min(count, input.readableBytes)
    // OpenSSL gives `count` writable bytes, and `length` is neither more than those nor than what is readable.
    unsafe input.readWithUnsafeReadableBytes { source in
      if length > 0, let base = source.baseAddress {
        unsafe UnsafeMutableRawPointer(destination).copyMemory(from: base, byteCount: length)
      }
      return length
    }
    return length
  }

  private func write(_ source: UnsafePointer<CChar>, count: Int) {
    // OpenSSL gives `count` readable bytes.
    unsafe output.writeBytes(UnsafeRawBufferPointer(start: source, count: count))
  }

  /// The callbacks, made once for the process.
  private static let method = Method()

  /// Owns the table of callbacks. Never freed: it is one per process.
  @safe
  private final class Method: @unchecked Sendable {
    // Read-only after `init`.
    let pointer: OpaquePointer?

    init() {
      // Each callback gets a BIO that `makeBIO` made, whose data is the `ByteBufferBIO`, alive as said there.
      unsafe pointer = BIO_meth_new(lk_bio_type(), "latchkey byte buffer")
      guard let pointer = unsafe pointer else { return }
      unsafe BIO_meth_set_read(pointer) { bio, destination, count in
        guard let owner = unsafe ByteBufferBIO.owner(of: bio), let destination = unsafe destination, count > 0 else {
          return -1
        }
        unsafe lk_bio_clear_retry(bio)
        let length = unsafe owner.read(into: destination, count: Int(count))
        if length == 0 {
          unsafe lk_bio_set_retry_read(bio)
          return -1
        }
        return Int32(length)
      }
      unsafe BIO_meth_set_write(pointer) { bio, source, count in
        guard let owner = unsafe ByteBufferBIO.owner(of: bio), let source = unsafe source, count > 0 else { return 0 }
        unsafe lk_bio_clear_retry(bio)
        unsafe owner.write(source, count: Int(count))
        return count
      }
      unsafe BIO_meth_set_ctrl(pointer) { _, command, _, _ in
        // OpenSSL flushes after each flight; there is nothing to do, and 0 would read as a failure.
        command == BIO_CTRL_FLUSH ? 1 : 0
      }
    }
  }

  private static func owner(of bio: OpaquePointer?) -> ByteBufferBIO? {
    guard let bio = unsafe bio, let data = unsafe BIO_get_data(bio) else { return nil }
    return unsafe Unmanaged<ByteBufferBIO>.fromOpaque(data).takeUnretainedValue()
  }
}
