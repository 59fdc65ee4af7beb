import CSSL
import Synchronization

/// What a server's handshakes share: its identity, whom it trusts, its protocols and its ticket keys.
///
/// `reload` replaces all but the ticket keys without a restart: handshakes that begin afterwards use the new values,
/// sessions that stand keep what they have.
package final class TLSServerContext: Sendable {
  /// What the server wants to know about its peers.
  package enum ClientCertificate: Sendable {
    /// None is asked for.
    case ignored
    /// One is asked for; a peer without one is served, a peer with a bad one is refused.
    case requested(TLSTrust)
    /// A peer without a certificate that `TLSTrust` vouches for is refused.
    case required(TLSTrust)

    var trust: TLSTrust? {
      switch self {
      case .ignored: nil
      case .requested(let trust), .required(let trust): trust
      }
    }
  }

  package struct Configuration: Sendable {
    package var identity: TLSIdentity
    package var clientCertificate: ClientCertificate
    /// 1.2 towards the world (Mozilla's intermediate profile), 1.3 between services.
    package var minimumVersion: TLSVersion
    /// The server's choice, best first. A peer that names none of them is refused; a peer without ALPN is not.
    package var protocols: [ALPNProtocol]

    package init(
      identity: TLSIdentity,
      clientCertificate: ClientCertificate = .ignored,
      minimumVersion: TLSVersion = .tls12,
      protocols: [ALPNProtocol] = [.http2, .http1]
    ) {
      self.identity = identity
      self.clientCertificate = clientCertificate
      self.minimumVersion = minimumVersion
      self.protocols = protocols
    }
  }

  private struct State {
    var configuration: Configuration
    var context: OpenSSLContext
    var ticketKeys: [UInt8]
  }

  /// A few words are read per handshake and written per reload: an actor would cost a suspension for each handshake.
  private let state: Mutex<State>

  package init(_ configuration: Configuration) throws(TLSError) {
    let context = try Self.makeContext(configuration)
    let keys = try Self.makeTicketKeys(for: context)
    try Self.install(keys, in: context)
    state = Mutex(State(configuration: configuration, context: context, ticketKeys: keys))
  }

  /// The context for the next handshake.
  var current: OpenSSLContext {
    state.withLock { $0.context }
  }

  /// Takes `configuration` for the handshakes that begin from now on. When it throws, nothing has changed.
  ///
  /// Tickets stay good across a reload. They are bound to the trust in client certificates that they were made under:
  /// with another one they lead to a whole handshake.
  package func reload(_ configuration: Configuration) throws(TLSError) {
    let context = try Self.makeContext(configuration)
    try state.withLock { (state) throws(TLSError) in
      try Self.install(state.ticketKeys, in: context)
      state.configuration = configuration
      state.context = context
    }
  }

  /// Makes every ticket handed out so far useless. Call it daily: a ticket key that leaks opens the TLS 1.2 sessions
  /// whose tickets it sealed.
  package func rotateTicketKeys() throws(TLSError) {
    // Under the lock, which handshakes wait for a millisecond: a reload must not come in between.
    try state.withLock { (state) throws(TLSError) in
      let context = try Self.makeContext(state.configuration)
      let keys = try Self.makeTicketKeys(for: context)
      try Self.install(keys, in: context)
      state.context = context
      state.ticketKeys = keys
    }
  }

  private static func makeContext(_ configuration: Configuration) throws(TLSError) -> OpenSSLContext {
    let context = try OpenSSLContext(
      isServer: true,
      versions: configuration.minimumVersion...TLSVersion.tls13,
      protocols: configuration.protocols
    )
    try context.use(configuration.identity)
    // The pointer lives as long as `context`, which this scope holds.
    let pointer = unsafe context.pointer
    if let trust = configuration.clientCertificate.trust {
      try context.use(trust, isServer: true)
      var mode = SSL_VERIFY_PEER
      if case .required = configuration.clientCertificate { mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT }
      unsafe SSL_CTX_set_verify(pointer, mode, nil)
    }
    unsafe lk_ssl_ctx_set_max_cert_list(pointer, Limits.clientCertificateBytes)
    unsafe SSL_CTX_set_info_callback(pointer, noteHandshake)
    // Tickets only: what a session needs to resume lives at the client, not in this process's memory.
    unsafe lk_ssl_ctx_set_session_cache_mode(pointer, Int(SSL_SESS_CACHE_OFF))
    unsafe SSL_CTX_set_num_tickets(pointer, Limits.ticketsPerHandshake)
    try bindSessions(of: context, to: configuration.clientCertificate)
    // The callback's argument is the context, which each session made from it retains.
    unsafe SSL_CTX_set_alpn_select_cb(
      pointer,
      selectProtocol,
      Unmanaged.passUnretained(context).toOpaque()
    )
    return context
  }

  /// Sets the session id context, which OpenSSL compares before it resumes: a ticket made under one trust in clients
  /// must not stand for a check under another.
  private static func bindSessions(of context: OpenSSLContext, to clients: ClientCertificate) throws(TLSError) {
    let name: String =
      switch clients {
      case .ignored: "ignored"
      case .requested: "requested"
      case .required: "required"
      }
    let input = [UInt8](name.utf8) + (clients.trust?.fingerprintInput ?? [])
    var digest = [UInt8](repeating: 0, count: 32)
    // SHA-256 writes exactly the 32 bytes of `digest`; a session id context is at most 32 bytes.
    let isSet =
      unsafe EVP_Digest(input, input.count, &digest, nil, EVP_sha256(), nil) == 1
      && SSL_CTX_set_session_id_context(context.pointer, digest, UInt32(digest.count)) == 1
    guard isSet else { throw TLSError(.configure, .system, .library(TLSError.lastOpenSSLText())) }
  }

  private static func makeTicketKeys(for context: OpenSSLContext) throws(TLSError) -> [UInt8] {
    let length = unsafe lk_ssl_ctx_ticket_keys_length(context.pointer)
    var keys = [UInt8](repeating: 0, count: max(0, length))
    guard !keys.isEmpty, unsafe RAND_bytes(&keys, Int32(keys.count)) == 1 else {
      throw TLSError(.configure, .system, .library(TLSError.lastOpenSSLText()))
    }
    return keys
  }

  private static func install(_ keys: [UInt8], in context: OpenSSLContext) throws(TLSError) {
    var keys = keys
    // OpenSSL copies the keys.
    guard unsafe lk_ssl_ctx_set_ticket_keys(context.pointer, &keys, keys.count) == 1 else {
      throw TLSError(.configure, .system, .library(TLSError.lastOpenSSLText()))
    }
  }
}

/// Hears what OpenSSL does about a session's handshakes. In TLS 1.3 what follows the first one, such as a key update, is none.
private func noteHandshake(_ session: OpaquePointer?, _ event: Int32, _ value: Int32) {
  guard event & SSL_CB_HANDSHAKE_START != 0, let session = unsafe session else { return }
  // Alive: OpenSSL calls within a call of its owner's.
  unsafe TLSSession.owner(of: session)?.handshakeBegins()
}

/// Chooses the server's best protocol among those the client names, RFC 7301 §3.2.
private func selectProtocol(
  _ session: OpaquePointer?,
  _ selected: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
  _ selectedLength: UnsafeMutablePointer<UInt8>?,
  _ offered: UnsafePointer<UInt8>?,
  _ offeredLength: UInt32,
  _ argument: UnsafeMutableRawPointer?
) -> Int32 {
  guard
    let argument = unsafe argument, let offered = unsafe offered, let selected = unsafe selected,
    let selectedLength = unsafe selectedLength
  else { return SSL_TLSEXT_ERR_ALERT_FATAL }
  // The argument is the context whose handshake this is, alive as long as the session.
  let context = unsafe Unmanaged<OpenSSLContext>.fromOpaque(argument).takeUnretainedValue()
  // OpenSSL has checked that the list is well formed; the loop trusts it no further than its length.
  let list = unsafe UnsafeBufferPointer(start: offered, count: Int(offeredLength))
  for candidate in context.protocols {
    var index = 0
    while index < list.count {
      let start = index + 1
      let end = start + Int(unsafe list[index])
      guard end <= list.count else { return SSL_TLSEXT_ERR_ALERT_FATAL }
      if unsafe list[start..<end].elementsEqual(candidate.rawValue.utf8) {
        // The answer points into the client's list, which OpenSSL copies from when this returns.
        unsafe selected.pointee = offered + start
        unsafe selectedLength.pointee = UInt8(end - start)
        return SSL_TLSEXT_ERR_OK
      }
      index = end
    }
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL
}
