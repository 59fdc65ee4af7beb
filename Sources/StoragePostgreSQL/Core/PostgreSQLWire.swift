import CPostgreSQL
import Glibc
import LatchkeyModel
import Storage

/// What goes over one connection, one statement after the other, and what comes back.
///
/// Statements are sent without waiting for their answers: `send` only writes them down, and `settle` sends all that is
/// written and takes every answer. The server runs them in their order and passes over those that follow a failure.
/// SQL texts are constants: each is prepared once, with its first use, and kept.
@safe final class PostgreSQLWire {
  typealias Receiver = (PostgreSQLResult) -> Void

  /// What was sent, or is about to be, and has no answer yet.
  private struct Unanswered {
    let operation: String
    /// What is prepared by it; nil for a statement that runs.
    var preparing: String?
    var receive: Receiver?
  }

  // Made by `connect`, finished in `deinit`, never handed out.
  private let handle: OpaquePointer
  private let notices = PostgreSQLNotices()
  private let cell: Cell
  private var names: [String: String] = [:]
  private var lastName = 0
  private var unanswered: [Unanswered] = []
  /// What the running operation is called, for errors.
  var operation = "connect"
  /// Nothing more can be asked of it.
  private(set) var isBroken = false
  /// It is broken because this side would wait no longer.
  private(set) var isGivenUp = false
  /// The server answered something since this was set to false.
  var hasAnswered = false
  /// What was settled last failed by the server's own word: nothing of it stays, whatever became of the connection.
  private(set) var wasRefused = false
  /// The server named a serialization failure or a deadlock since this was set to false.
  var hasConflict = false
  /// The server found no room on its disk since this was set to false.
  var hasNoRoom = false

  /// `handle` is a connection that stands, and from now on the wire's.
  private init(_ handle: OpaquePointer, idsOf cell: Cell) {
    unsafe self.handle = handle
    self.cell = cell
    unsafe PQsetnonblocking(handle, 1)
    // The receiver is called on this thread, and `notices` lives as long as the wire.
    unsafe PQsetNoticeReceiver(
      handle, { unsafe PostgreSQLNotices.receive($0, $1) }, Unmanaged.passUnretained(notices).toOpaque())
    unsafe PQenterPipelineMode(handle)
  }

  deinit {
    // Closes the socket; nobody has the handle any more.
    unsafe PQfinish(handle)
  }

  /// Blocks until the database answers or the time to connect is over, at each host of the URL.
  static func connect(to url: PostgreSQLURL, idsOf cell: Cell) throws(StorageError) -> PostgreSQLWire {
    // Copies, freed below; libpq keeps none of them.
    var keywords: [UnsafePointer<CChar>?] = unsafe []
    var values: [UnsafePointer<CChar>?] = unsafe []
    for (keyword, value) in url.connectionOptions {
      unsafe keywords.append(UnsafePointer(strdup(keyword)))
      unsafe values.append(UnsafePointer(strdup(value)))
    }
    unsafe keywords.append(nil)
    unsafe values.append(nil)
    defer {
      unsafe (keywords + values).forEach { unsafe free(UnsafeMutablePointer(mutating: $0)) }
    }
    guard let handle = unsafe PQconnectdbParams(keywords, values, 0) else {
      throw StorageError(.unavailable, operation: "connect", detail: "no memory for a connection")
    }
    if unsafe PQstatus(handle) == CONNECTION_OK { return unsafe PostgreSQLWire(handle, idsOf: cell) }
    defer { unsafe PQfinish(handle) }
    // libpq's reason names hosts, users and databases, but no password. It belongs to the connection and is copied at once.
    let message = unsafe PQerrorMessage(handle).map { unsafe String(cString: $0) } ?? ""
    let line = message.split(whereSeparator: \.isNewline).joined(separator: "; ")
    throw StorageError(.unavailable, operation: "connect to \(url)", detail: line)
  }

  // MARK: Statements

  /// Whether something waits to be settled.
  var isUnsettled: Bool { !unanswered.isEmpty }

  /// Writes a statement down. `receive` is called with its answer while that is settled, unless it fails.
  func send(
    _ sql: String, _ values: [PostgreSQLValue], _ receive: Receiver? = nil
  ) throws(StorageError) {
    let name = try prepare(sql)
    let isSent = unsafe PostgreSQLParameters(values).withPointers { count, pointers, lengths, formats in
      // All of it is copied before the call returns; results in binary form.
      unsafe PQsendQueryPrepared(handle, name, count, pointers, lengths, formats, 1) == 1
    }
    guard isSent else { throw broken("the connection to the database ended") }
    unanswered.append(Unanswered(operation: operation, receive: receive))
  }

  private func prepare(_ sql: String) throws(StorageError) -> String {
    if let name = names[sql] { return name }
    let isKept = names.count < Limits.preparedStatements
    // A name is not given twice. The unnamed statement holds until the next one.
    if isKept { lastName += 1 }
    let name = isKept ? "s\(lastName)" : ""
    // The texts live through the call; the server finds out the types.
    guard unsafe PQsendPrepare(handle, name, sql, 0, nil) == 1 else {
      throw broken("the connection to the database ended")
    }
    unanswered.append(Unanswered(operation: operation, preparing: sql))
    if isKept { names[sql] = name }
    return name
  }

  /// Sends what is written and waits for all of its answers. Returns the last statement's.
  ///
  /// Errors: the first that the server reported, in the name of the operation that it is of. `unavailable` when the
  /// connection ended before the last answer, or the time was over.
  @discardableResult
  func settle(_ limit: Duration) throws(StorageError) -> PostgreSQLResult {
    wasRefused = false
    defer { unanswered.removeAll(keepingCapacity: true) }
    // The handle is live until `deinit`.
    guard unsafe PQpipelineSync(handle) == 1 else { throw broken("the connection to the database ended") }
    let deadline = ContinuousClock.now + limit
    try flush(until: deadline)
    var (place, last, failure) = (0, PostgreSQLResult?.none, StorageError?.none)
    while true {
      try receive(until: deadline, unless: failure)
      // Does not block: the answer is there. Each result becomes ours; none is the end of one statement's.
      guard let next = unsafe PQgetResult(handle) else {
        place += 1
        if isOver || place > unanswered.count + 1 {
          let end = broken("the connection to the database ended")
          throw failure ?? end
        }
        continue
      }
      let result = unsafe PostgreSQLResult(next, idsOf: cell)
      if result.isEnd { break }
      // A commit's own failure comes after the last statement.
      let asked = unanswered[min(place, unanswered.count - 1)]
      if let refusal = result.failure, failure == nil {
        failure = try note(refusal, asked.operation)
      } else if failure == nil, asked.preparing == nil {
        hasAnswered = true
        last = result
        asked.receive?(result)
      }
      // Those that follow a failure were not prepared.
      if failure != nil, let sql = asked.preparing { names[sql] = nil }
    }
    if let failure { throw failure }
    guard let last else { throw broken("the connection to the database ended") }
    return last
  }

  /// Runs a script of several statements without values. Stops at the first that fails.
  func run(_ script: String, _ limit: Duration) throws(StorageError) {
    if isUnsettled { try settle(limit) }
    // The text lives through the call; the handle is live until `deinit`. Only a pipeline's statements are prepared.
    guard unsafe PQexitPipelineMode(handle) == 1, unsafe PQsendQuery(handle, script) == 1 else {
      throw broken("the connection to the database ended")
    }
    let deadline = ContinuousClock.now + limit
    try flush(until: deadline)
    var failure: StorageError?
    while true {
      try receive(until: deadline, unless: failure)
      // As above; none is the end of all.
      guard let next = unsafe PQgetResult(handle) else { break }
      let result = unsafe PostgreSQLResult(next, idsOf: cell)
      if failure == nil, let refusal = result.failure { failure = try note(refusal, operation) }
    }
    guard unsafe PQenterPipelineMode(handle) == 1 else {
      throw failure ?? broken("the connection to the database ended")
    }
    if let failure { throw failure }
  }

  // MARK: The connection

  /// A warning since they were forgotten, in the server's words.
  var warning: String? { notices.warning }

  func forgetWarnings() { notices.forget() }

  /// Takes what arrived while nothing was asked; false when that was the connection's end.
  func takeIdleInput() -> Bool {
    // The handle is live until `deinit`. The second reads what a server says that goes.
    if unsafe PQconsumeInput(handle) == 0 || PQisBusy(handle) == 1 || isOver || notices.isFarewell { isBroken = true }
    return !isBroken
  }

  /// For waiting on; -1 once the connection ended.
  var socket: Int32 {
    // The handle is live until `deinit`.
    unsafe PQsocket(handle)
  }

  /// Nothing is asked of it any more.
  func giveUp() { isBroken = true }

  private var isOver: Bool {
    // The handle is live until `deinit`.
    unsafe PQstatus(handle) != CONNECTION_OK
  }

  private func flush(until deadline: ContinuousClock.Instant) throws(StorageError) {
    while true {
      // The handle is live until `deinit`.
      switch unsafe PQflush(handle) {
      case 0: return
      case 1: break
      // What the server said before it went is still to be read.
      default: return
      }
      try wait(toWrite: true, until: deadline)
    }
  }

  private func receive(
    until deadline: ContinuousClock.Instant, unless failure: StorageError?
  ) throws(StorageError) {
    // The handle is live until `deinit`.
    while unsafe PQisBusy(handle) == 1 {
      do throws(StorageError) {
        try wait(toWrite: false, until: deadline)
      } catch {
        // What the server said before is what happened.
        throw failure ?? error
      }
      // What it reports comes as a result.
    }
  }

  private func wait(toWrite: Bool, until deadline: ContinuousClock.Instant) throws(StorageError) {
    guard PostgreSQLPoll.wait(socket, toWrite: toWrite, until: deadline) else {
      isGivenUp = true
      throw broken("the database did not answer in time")
    }
    // The handle is live until `deinit`. A failure shows as a result that says so.
    unsafe PQconsumeInput(handle)
  }

  /// What a failure means. Throws it when no more answers come.
  private func note(_ failure: PostgreSQLFailure, _ operation: String) throws(StorageError) -> StorageError {
    if failure.isConflict { hasConflict = true }
    if failure.code == "53100" { hasNoRoom = true }
    let error = failure.error(operation)
    if failure.isFatal {
      isBroken = true
      throw error
    }
    wasRefused = true
    hasAnswered = true
    if isOver || failure.isReadOnlyServer { isBroken = true }
    return error
  }

  /// No answer is waited for any more: the connection is closed, never its statement cancelled.
  private func broken(_ detail: String) -> StorageError {
    isBroken = true
    return StorageError(.unavailable, operation: operation, detail: detail)
  }
}
