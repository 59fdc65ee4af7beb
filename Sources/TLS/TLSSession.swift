import CSSL
package import NIOCore

/// One TLS connection, without a socket: ciphertext in, plaintext out, and the other way round.
///
/// ```
///              start / receive                receive (close_notify) or close
/// handshaking ────────────────▶ open ───────────────────────────────────────▶ closed
///      │                          │                                              ▲
///      └──────────── error ───────┴──────────────────────────────────────────────┘
/// ```
///
/// After each call, and after each error, `takeOutput()` holds what must go to the peer: the flights of the handshake,
/// records, and the alert that tells the peer why. Belongs to one event loop.
@safe
package final class TLSSession {
  /// What `receive` brought about.
  package struct Progress: Sendable, Equatable {
    /// The handshake finished within this call.
    package var isHandshakeFinished = false
    /// The peer said that it sends no more.
    package var isClosedByPeer = false
    /// Records after the handshake that held no data, but for one that the input may have ended with.
    package var idleRecords = 0

    package init(isHandshakeFinished: Bool = false, isClosedByPeer: Bool = false, idleRecords: Int = 0) {
      self.isHandshakeFinished = isHandshakeFinished
      self.isClosedByPeer = isClosedByPeer
      self.idleRecords = idleRecords
    }
  }

  private enum State {
    case handshaking
    case open
    case closed
  }

  // Freed in `deinit`; never leaves this type.
  private let ssl: OpaquePointer
  private let bio = ByteBufferBIO()
  /// Kept alive because callbacks of `ssl` read it.
  private let context: OpenSSLContext
  private let isServer: Bool
  /// Where a client keeps the session that the server lets it resume, and under which name.
  private let resumption: (context: TLSClientContext, host: String)?
  private var state = State.handshaking
  /// The peer began another handshake after the first one.
  private var isRenegotiating = false

  /// A session that waits for a client's hello.
  package init(server: TLSServerContext) throws(TLSError) {
    context = server.current
    isServer = true
    resumption = nil
    ERR_clear_error()
    // The context lives in `self.context`. The session takes over the reference to the BIO.
    guard let ssl = unsafe SSL_new(context.pointer) else {
      throw TLSError(.configure, .system, .library(TLSError.lastOpenSSLText()))
    }
    guard let transport = unsafe bio.makeBIO() else {
      unsafe SSL_free(ssl)
      throw TLSError(.configure, .system, .library("out of memory"))
    }
    unsafe self.ssl = unsafe ssl
    unsafe SSL_set_bio(ssl, transport, transport)
    unsafe SSL_set_accept_state(ssl)
    // Unretained: callbacks run only within calls on `self`.
    unsafe lk_ssl_set_app_data(ssl, Unmanaged.passUnretained(self).toOpaque())
  }

  /// A session with `host`, a name or an IP address, which the server's certificate must be for. Call `start` next.
  package init(client: TLSClientContext, host: String) throws(TLSError) {
    context = client.current
    isServer = false
    resumption = (client, host)
    ERR_clear_error()
    // The context lives in `self.context`. The session takes over the reference to the BIO.
    guard let ssl = unsafe SSL_new(context.pointer) else {
      throw TLSError(.configure, .system, .library(TLSError.lastOpenSSLText()))
    }
    guard let transport = unsafe bio.makeBIO() else {
      unsafe SSL_free(ssl)
      throw TLSError(.configure, .system, .library("out of memory"))
    }
    unsafe self.ssl = unsafe ssl
    unsafe SSL_set_bio(ssl, transport, transport)
    unsafe SSL_set_connect_state(ssl)
    // Unretained: callbacks run only within calls on `self`.
    unsafe lk_ssl_set_app_data(ssl, Unmanaged.passUnretained(self).toOpaque())
    try expect(host)
    if let session = client.takeSession(for: host, of: context) {
      // OpenSSL takes a reference of its own. A session it cannot use only means a whole handshake.
      unsafe SSL_set_session(ssl, session.pointer)
    }
  }

  deinit {
    if case .open = state {
      // The connection ended without our close_notify: say so, or OpenSSL would spoil the session for resumption.
      unsafe SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
    }
    // Frees the BIO as well; `bio` is still alive here.
    unsafe SSL_free(ssl)
  }

  // MARK: - What the handshake settled

  /// Whether both sides have agreed on keys; stays true after the end.
  package private(set) var isHandshakeFinished = false

  /// The protocol that ALPN settled; nil when the client named none.
  package var applicationProtocol: ALPNProtocol? {
    var name: UnsafePointer<UInt8>?
    var length: UInt32 = 0
    // The name lives as long as the session, and is copied here.
    unsafe SSL_get0_alpn_selected(ssl, &name, &length)
    guard let name = unsafe name else { return nil }
    return unsafe ALPNProtocol(
      rawValue: String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
    )
  }

  package var version: TLSVersion? {
    TLSVersion(number: unsafe SSL_version(ssl))
  }

  /// The cipher's standard name, such as `TLS_AES_128_GCM_SHA256`.
  package var cipher: String? {
    // Both are constants of the library.
    guard let cipher = unsafe SSL_get_current_cipher(ssl), let name = unsafe SSL_CIPHER_standard_name(cipher) else {
      return nil
    }
    return unsafe String(cString: name)
  }

  /// Whether the handshake took an earlier session's keys instead of certificates.
  package var isResumed: Bool {
    unsafe SSL_session_reused(ssl) == 1
  }

  /// The names in the peer's certificate, which has been verified; empty when the peer showed none.
  package var peerNames: [String] {
    guard isHandshakeFinished, let certificate = unsafe SSL_get1_peer_certificate(ssl) else { return [] }
    // "get1" gives a reference of our own, which the object frees.
    return unsafe X509Certificate(owning: certificate).subjectAlternativeNames
  }

  // MARK: - Bytes

  /// Begins a client's handshake: `takeOutput()` then holds its hello.
  package func start() throws(TLSError) {
    _ = try advanceHandshake()
  }

  /// Takes bytes of the peer, and appends to `plaintext` what they hold.
  package func receive(_ ciphertext: ByteBuffer, into plaintext: inout ByteBuffer) throws(TLSError) -> Progress {
    var progress = Progress()
    if case .closed = state { return progress }
    bio.input = ciphertext
    defer { bio.input = ByteBuffer() }
    if case .handshaking = state {
      guard try advanceHandshake() else { return progress }
      progress.isHandshakeFinished = true
    }
    progress.isClosedByPeer = try decrypt(into: &plaintext, &progress.idleRecords)
    return progress
  }

  /// Encrypts for the peer. Before the handshake is finished, and after the end, this is an error.
  package func send(_ plaintext: ByteBuffer) throws(TLSError) {
    guard case .open = state else { throw TLSError(.send, .us, .closed) }
    let count = plaintext.readableBytes
    guard count > 0 else { return }
    let records = (count + Limits.recordPlaintext - 1) / Limits.recordPlaintext
    bio.output.reserveCapacity(bio.output.readableBytes + count + records * Limits.recordOverhead)
    ERR_clear_error()
    var written = 0
    // The bytes live for the call. The BIO takes everything, so one call writes all of them.
    let result = unsafe plaintext.withUnsafeReadableBytes { bytes in
      unsafe SSL_write_ex(ssl, bytes.baseAddress, bytes.count, &written)
    }
    guard result == 1, written == count else { throw fail(.send) }
  }

  /// Says to the peer that no more comes.
  package func close() {
    guard case .open = state else {
      state = .closed
      return
    }
    state = .closed
    ERR_clear_error()
    // 0 and 1 are both success: the peer's own close_notify is not waited for.
    unsafe SSL_shutdown(ssl)
    ERR_clear_error()
  }

  /// What must go to the peer now; nil when that is nothing.
  package func takeOutput() -> ByteBuffer? {
    guard bio.output.readableBytes > 0 else { return nil }
    let output = bio.output
    bio.output = ByteBuffer()
    return output
  }

  // MARK: - Helpers

  /// Goes as far as the input allows; answers whether the handshake is finished.
  private func advanceHandshake() throws(TLSError) -> Bool {
    ERR_clear_error()
    let result = unsafe SSL_do_handshake(ssl)
    guard result == 1 else {
      if unsafe SSL_get_error(ssl, result) == SSL_ERROR_WANT_READ { return false }
      throw fail(.handshake)
    }
    state = .open
    isHandshakeFinished = true
    if !isServer, !context.protocols.isEmpty, applicationProtocol == nil {
      close()
      throw TLSError(.handshake, .peer, .noCommonProtocol)
    }
    return true
  }

  /// Reads records until the input is used up; answers whether the peer has closed.
  private func decrypt(into plaintext: inout ByteBuffer, _ idleRecords: inout Int) throws(TLSError) -> Bool {
    // What comes out is at most what went in, plus a record of which the earlier part is already inside.
    plaintext.reserveCapacity(minimumWritableBytes: bio.input.readableBytes)
    while true {
      ERR_clear_error()
      var read = 0
      var result: Int32 = 0
      // OpenSSL writes at most `count` bytes and says in `read` how many.
      unsafe plaintext.writeWithUnsafeMutableBytes(minimumWritableBytes: Limits.minimumRead) { space in
        unsafe result = SSL_read_ex(ssl, space.baseAddress, space.count, &read)
        return result == 1 ? read : 0
      }
      // OpenSSL refuses it once its hello is whole, and makes room for a hello of 128 KiB as soon as it has begun.
      if isRenegotiating { throw end(.protocolViolation("renegotiation is not allowed")) }
      if result == 1 {
        // Nothing more can come: the input ended with a record that is wholly read.
        if bio.input.readableBytes == 0, unsafe SSL_pending(ssl) == 0 { return false }
        continue
      }
      switch unsafe SSL_get_error(ssl, result) {
      case SSL_ERROR_WANT_READ:
        // All that a client may say to a server here is a key update of five bytes. One that comes in parts has room made
        // for it that nobody gives back.
        if isServer, unsafe SSL_in_init(ssl) == 1 { throw end(.protocolViolation("a key update is not whole")) }
        guard bio.input.readableBytes > 0 else { return false }
        idleRecords += 1
        guard idleRecords <= Limits.idleRecordsPerRead else { throw end(.idleRecords) }
      case SSL_ERROR_ZERO_RETURN:
        return true
      default:
        throw fail(.receive)
      }
    }
  }

  /// Ends the session for what the peer sent.
  private func end(_ reason: TLSError.Reason) -> TLSError {
    close()
    return TLSError(.receive, .peer, reason)
  }

  /// A handshake of this session begins.
  func handshakeBegins() {
    if isHandshakeFinished { isRenegotiating = true }
  }

  /// Ends the session for the error that OpenSSL has just reported.
  private func fail(_ operation: TLSError.Operation) -> TLSError {
    state = .closed
    let error = TLSError.last(operation, verification: unsafe SSL_get_verify_result(ssl), isServer: isServer)
    ERR_clear_error()
    return error
  }

  /// Demands a certificate for `host`, and tells the server which one by SNI when it is a name (RFC 6066 §3 knows no
  /// addresses).
  private func expect(_ host: String) throws(TLSError) {
    // The parameters belong to the session. The functions copy the text.
    let parameters = unsafe SSL_get0_param(ssl)
    // Names live in the subjectAltName extension; the subject's common name says nothing (RFC 9525 §2).
    let flags = UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS) | UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
    unsafe X509_VERIFY_PARAM_set_hostflags(parameters, flags)
    if unsafe X509_VERIFY_PARAM_set1_ip_asc(parameters, host) == 1 { return }
    ERR_clear_error()
    guard
      !host.isEmpty, !host.utf8.contains(0),
      unsafe X509_VERIFY_PARAM_set1_host(parameters, host, 0) == 1,
      unsafe lk_ssl_set_server_name(ssl, host) == 1
    else {
      throw TLSError(.configure, .us, .wrongHost)
    }
  }

  /// The session behind a client's `SSL`, for callbacks.
  static func owner(of ssl: OpaquePointer) -> TLSSession? {
    guard let data = unsafe lk_ssl_get_app_data(ssl) else { return nil }
    return unsafe Unmanaged<TLSSession>.fromOpaque(data).takeUnretainedValue()
  }

  /// The server lets this client resume.
  func keep(_ session: ResumableSession) {
    guard let resumption else { return }
    resumption.context.keep(session, for: resumption.host, of: context)
  }
}
