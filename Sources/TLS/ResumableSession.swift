import CSSL

/// One reference to a session that a client can resume. OpenSSL counts references and locks what it changes.
@safe
final class ResumableSession: @unchecked Sendable {
  let pointer: OpaquePointer

  /// Takes over a reference that the caller owned.
  init(owning pointer: OpaquePointer) {
    unsafe self.pointer = unsafe pointer
  }

  var isForOneUse: Bool {
    unsafe SSL_SESSION_get_protocol_version(pointer) == TLS1_3_VERSION
  }

  deinit {
    // The reference is this object's own.
    unsafe SSL_SESSION_free(pointer)
  }
}
