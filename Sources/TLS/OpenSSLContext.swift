import CSSL

/// One `SSL_CTX`, configured once and read by every session made from it.
///
/// OpenSSL locks what sessions of several threads share in it; this side changes nothing after `init` but the ticket
/// keys, which `TLSServerContext` does under its own lock before the context is handed out.
@safe
final class OpenSSLContext: @unchecked Sendable {
  /// Mozilla's intermediate list without the DHE suites: those need 2,048-bit groups that cost a server milliseconds.
  private static let ciphers = [
    "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
  ].joined(separator: ":")
  private static let suites = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
  private static let groups = "X25519:P-256:P-384"

  let pointer: OpaquePointer
  /// The server's choice of protocols, best first; read by the ALPN callback.
  let protocols: [ALPNProtocol]

  /// A context with everything that both sides share.
  init(isServer: Bool, versions: ClosedRange<TLSVersion>, protocols: [ALPNProtocol]) throws(TLSError) {
    ERR_clear_error()
    // Both method tables are constants of the library.
    guard let pointer = unsafe SSL_CTX_new(isServer ? TLS_server_method() : TLS_client_method()) else {
      throw TLSError(.configure, .system, .library(TLSError.lastOpenSSLText()))
    }
    // From here `deinit` frees it, also when this initialiser throws.
    unsafe self.pointer = unsafe pointer
    self.protocols = protocols
    guard
      unsafe lk_ssl_ctx_set_min_version(pointer, versions.lowerBound.number) == 1,
      unsafe lk_ssl_ctx_set_max_version(pointer, versions.upperBound.number) == 1,
      unsafe SSL_CTX_set_cipher_list(pointer, Self.ciphers) == 1,
      unsafe SSL_CTX_set_ciphersuites(pointer, Self.suites) == 1,
      unsafe lk_ssl_ctx_set_groups(pointer, Self.groups) == 1
    else {
      throw TLSError(.configure, .system, .library(TLSError.lastOpenSSLText()))
    }
    unsafe lk_ssl_ctx_set_options(pointer)
    // An idle session gives its record buffers back: 33 KiB less for each.
    unsafe lk_ssl_ctx_set_mode(pointer, Int(SSL_MODE_RELEASE_BUFFERS))
    // A read comes back after each record that is not data, so that `TLSSession` can count those.
    unsafe lk_ssl_ctx_clear_mode(pointer, Int(SSL_MODE_AUTO_RETRY))
    unsafe SSL_CTX_set_timeout(pointer, Limits.sessionLifetimeSeconds)
    unsafe SSL_CTX_set_verify_depth(pointer, Limits.chainDepth)
  }

  deinit {
    // Sessions hold counted references of their own.
    unsafe SSL_CTX_free(pointer)
  }

  func use(_ identity: TLSIdentity) throws(TLSError) {
    // OpenSSL takes references of its own; the identity's live in this scope.
    guard
      let leaf = identity.chain.first,
      unsafe SSL_CTX_use_certificate(pointer, leaf.pointer) == 1,
      unsafe SSL_CTX_use_PrivateKey(pointer, identity.key.pointer) == 1
    else {
      throw TLSError(.configure, .us, .unusableIdentity(TLSError.lastOpenSSLText()))
    }
    for intermediate in identity.chain.dropFirst() {
      guard unsafe lk_ssl_ctx_add_chain_certificate(pointer, intermediate.pointer) == 1 else {
        throw TLSError(.configure, .us, .unusableIdentity(TLSError.lastOpenSSLText()))
      }
    }
  }

  /// Trusts `trust` for the other side's chain; a server also names these authorities in its certificate request.
  func use(_ trust: TLSTrust, isServer: Bool) throws(TLSError) {
    switch trust.source {
    case .anyone: break
    case .system:
      guard unsafe SSL_CTX_set_default_verify_paths(pointer) == 1 else {
        throw TLSError(.configure, .system, .unusableTrust(TLSError.lastOpenSSLText()))
      }
    case .anchors(let anchors, _):
      // The store belongs to the context; it and the name list take references or copies.
      guard let store = unsafe SSL_CTX_get_cert_store(pointer) else {
        throw TLSError(.configure, .system, .unusableTrust(TLSError.lastOpenSSLText()))
      }
      for anchor in anchors {
        guard
          unsafe X509_STORE_add_cert(store, anchor.pointer) == 1,
          unsafe !isServer || SSL_CTX_add_client_CA(pointer, anchor.pointer) == 1
        else {
          throw TLSError(.configure, .us, .unusableTrust(TLSError.lastOpenSSLText()))
        }
      }
    }
  }
}
