internal import Logging
internal import Synchronization
internal import TLS

/// The TLS engines of a service over files that change while it runs: certificates are renewed every few weeks, and a
/// service must not be restarted for it.
///
/// New files are taken when they have stopped changing or when SIGHUP says so. Files that do not hold, or do not belong
/// together, change nothing: the service goes on with what it has and logs an error. Connections that stand keep the
/// keys that they began with.
final class TLSContexts: Sendable {
  /// For the gRPC port; nil for cleartext.
  let server: TLSServerContext?
  /// For calls to other services; nil for cleartext.
  let client: TLSClientContext?

  private let files: TLSFiles
  private let logger: Logger
  private let state: Mutex<State>

  private struct State {
    /// What was read last, whether it held or not.
    var read: [FileStamp?]
    /// What the last look saw.
    var seen: [FileStamp?]
    var ticketKeysEnd: ContinuousClock.Instant
  }

  /// Errors: exit status 78 for files that do not hold.
  init(_ files: TLSFiles, logger: Logger, now: ContinuousClock.Instant = .now) throws(StartupError) {
    self.files = files
    self.logger = logger
    let stamps = files.paths.map { FileStamp($0) }
    state = Mutex(State(read: stamps, seen: stamps, ticketKeysEnd: now + Limits.ticketKeyLifetime))
    do {
      server = try files.serverConfiguration().map { (configuration) throws(TLSError) in
        try TLSServerContext(configuration)
      }
      client = try files.clientConfiguration().map { (configuration) throws(TLSError) in
        try TLSClientContext(configuration)
      }
    } catch {
      throw (error as? StartupError) ?? StartupError("\(error)", exitStatus: StartupError.badConfiguration)
    }
  }

  /// Looks at the files until cancelled.
  func run() async {
    guard !files.paths.isEmpty else { return }
    while !Task.isCancelled {
      try? await Task.sleep(for: Limits.certificateInterval)
      look(now: .now)
    }
  }

  /// Reads files that differ from those read last and are as the look before saw them: a certificate and its key are
  /// replaced one after the other. Makes new ticket keys when their day is over.
  func look(now: ContinuousClock.Instant) {
    let stamps = files.paths.map { FileStamp($0) }
    let (mustRead, mustRotate) = state.withLock { state in
      let hasSettled = stamps == state.seen
      state.seen = stamps
      let isOver = now >= state.ticketKeysEnd
      if isOver { state.ticketKeysEnd = now + Limits.ticketKeyLifetime }
      return (hasSettled && stamps != state.read, isOver)
    }
    if mustRead { reload() }
    if mustRotate { rotateTicketKeys() }
  }

  /// Reads the files now.
  func reload() {
    let stamps = files.paths.map { FileStamp($0) }
    state.withLock { state in
      state.read = stamps
      state.seen = stamps
    }
    guard !files.paths.isEmpty else { return }
    do {
      // Both are made before either is taken.
      let serverConfiguration = try files.serverConfiguration()
      let clientConfiguration = try files.clientConfiguration()
      if let serverConfiguration { try server?.reload(serverConfiguration) }
      if let clientConfiguration { try client?.reload(clientConfiguration) }
      logger.notice("the TLS files were read again")
    } catch {
      logger.error("the new TLS files do not hold; going on with the old ones", metadata: ["reason": "\(error)"])
    }
  }

  private func rotateTicketKeys() {
    do throws(TLSError) {
      try server?.rotateTicketKeys()
    } catch {
      logger.error("new TLS ticket keys cannot be made", metadata: ["reason": "\(error)"])
    }
  }
}
