import CSSL
import Synchronization

/// What a client's handshakes share: whom it trusts, who it is, and the sessions it can resume.
package final class TLSClientContext: Sendable {
  package struct Configuration: Sendable {
    package var trust: TLSTrust
    /// Shown to a server that asks for it.
    package var identity: TLSIdentity?
    package var minimumVersion: TLSVersion
    package var maximumVersion: TLSVersion
    /// What the client offers; a server that chooses none of them is refused. Empty offers and demands nothing.
    package var protocols: [ALPNProtocol]

    package init(
      trust: TLSTrust = .system,
      identity: TLSIdentity? = nil,
      minimumVersion: TLSVersion = .tls12,
      maximumVersion: TLSVersion = .tls13,
      protocols: [ALPNProtocol] = [.http2]
    ) {
      self.trust = trust
      self.identity = identity
      self.minimumVersion = minimumVersion
      self.maximumVersion = maximumVersion
      self.protocols = protocols
    }
  }

  private struct State {
    var context: OpenSSLContext
    /// Sessions to resume, by host, the oldest first.
    var sessions: [(host: String, session: ResumableSession)] = []
  }

  /// Taken and put back once per handshake, from any thread.
  private let state: Mutex<State>

  package init(_ configuration: Configuration) throws(TLSError) {
    state = Mutex(State(context: try Self.makeContext(configuration)))
  }

  /// The context for the next handshake.
  var current: OpenSSLContext {
    state.withLock { $0.context }
  }

  /// Takes `configuration` for the handshakes that begin from now on. When it throws, nothing has changed.
  ///
  /// Sessions made before are not resumed: the server that they were made with was checked under the old trust.
  package func reload(_ configuration: Configuration) throws(TLSError) {
    let context = try Self.makeContext(configuration)
    state.withLock { $0 = State(context: context) }
  }

  private static func makeContext(_ configuration: Configuration) throws(TLSError) -> OpenSSLContext {
    let context = try OpenSSLContext(
      isServer: false,
      versions: configuration.minimumVersion...configuration.maximumVersion,
      protocols: configuration.protocols
    )
    try context.use(configuration.trust, isServer: false)
    if let identity = configuration.identity { try context.use(identity) }
    // The pointer lives as long as `context`.
    let pointer = unsafe context.pointer
    var verifies = true
    if case .anyone = configuration.trust.source { verifies = false }
    unsafe SSL_CTX_set_verify(pointer, verifies ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nil)
    let mode = Int(SSL_SESS_CACHE_CLIENT) | Int(SSL_SESS_CACHE_NO_INTERNAL)
    unsafe lk_ssl_ctx_set_session_cache_mode(pointer, mode)
    // The callback runs within a call on the `TLSSession` that it finds behind the `SSL`. Its answer says whether it
    // took over the reference to the session.
    unsafe SSL_CTX_sess_set_new_cb(pointer) { ssl, session in
      guard
        let ssl = unsafe ssl, let session = unsafe session, let owner = unsafe TLSSession.owner(of: ssl)
      else { return 0 }
      unsafe owner.keep(ResumableSession(owning: session))
      return 1
    }
    let protocols = configuration.protocols.wireForm
    // Unlike the rest of the library, this function answers 0 for success. It copies the list.
    guard unsafe SSL_CTX_set_alpn_protos(pointer, protocols, UInt32(protocols.count)) == 0 else {
      throw TLSError(.configure, .system, .library(TLSError.lastOpenSSLText()))
    }
    return context
  }

  /// Keeps a session for the next handshake with `host`; beyond the limit the oldest goes. A session of a context that
  /// was replaced is not kept.
  func keep(_ session: ResumableSession, for host: String, of context: OpenSSLContext) {
    state.withLock { state in
      guard state.context === context else { return }
      state.sessions.removeAll { $0.host == host }
      if state.sessions.count >= Limits.resumableSessions { state.sessions.removeFirst() }
      state.sessions.append((host, session))
    }
  }

  /// The session to resume with `host`. In TLS 1.3 once: a ticket used twice lets an observer link both connections
  /// (RFC 8446 §C.4), and each handshake brings a new one. In TLS 1.2 the same ticket serves until it expires.
  func takeSession(for host: String, of context: OpenSSLContext) -> ResumableSession? {
    state.withLock { state in
      guard state.context === context, let index = state.sessions.firstIndex(where: { $0.host == host }) else {
        return nil
      }
      let session = state.sessions[index].session
      if session.isForOneUse { state.sessions.remove(at: index) }
      return session
    }
  }
}
