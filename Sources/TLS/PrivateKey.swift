import CSSL

/// One reference to a private key. OpenSSL counts references with atomics and does not change a key that is only used.
@safe
final class PrivateKey: @unchecked Sendable {
  let pointer: OpaquePointer

  /// Takes over a reference that the caller owned.
  init(owning pointer: OpaquePointer) {
    unsafe self.pointer = unsafe pointer
  }

  deinit {
    // The reference is this object's own.
    unsafe EVP_PKEY_free(pointer)
  }
}
