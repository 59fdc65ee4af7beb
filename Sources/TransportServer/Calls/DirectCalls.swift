internal import GRPC
internal import NIOCore

/// The calls of one header block that may be answered within the read pass that brings their request.
final class DirectCalls {
  private let answers: any DirectAnswers
  private let messageLimit: Int
  /// How long a request may take to arrive.
  let timeLimit: TimeAmount
  private let conditions: [@Sendable () -> Bool]
  private let tallies: [any CallTally]
  /// Calls answered since the tallies were last told.
  private var uncounted = 0

  /// Nil when the verdict is not to call, when the route has no direct way, or when an interceptor wants to see each
  /// call.
  init?(_ verdict: RequestHead.Verdict, _ fields: FieldBlock, _ environment: ServerEnvironment, _ peer: Peer) {
    guard case .call(let route, let timeout) = verdict, let make = route.directAnswers else { return nil }
    let context = ServerContext(method: route.method, fields: fields, deadline: nil, peer: peer)
    guard let terms = environment.interceptors.directCalls(context) else { return nil }
    let limit = route.timeLimit ?? environment.configuration.timeLimit(.unary) ?? .seconds(3600)
    let time = min(timeout ?? limit, limit)
    // A call that is about to be over is one for the timers.
    guard time >= .milliseconds(1) else { return nil }
    answers = make()
    messageLimit = route.messageLimit
    timeLimit = TimeAmount(time)
    conditions = terms.conditions
    tallies = terms.tallies
  }

  /// Whether the interceptors still let all of them pass.
  private var isPassing: Bool {
    for condition in conditions where !condition() { return false }
    return true
  }

  /// Answers a request. False when it has to go the long way; nothing was done then.
  ///
  /// - Parameters:
  ///   - body: all of the request's DATA.
  ///   - frame: takes the framed answer.
  func answer(_ body: UnsafeRawBufferPointer, into frame: inout ByteBuffer) throws(RPCError) -> Bool {
    guard let message = unsafe message(body), isPassing else { return false }
    // The span is used only within the call.
    guard try unsafe answers.answer(Span(_unsafeBytes: message), into: &frame) else { return false }
    uncounted += 1
    return true
  }

  /// The DATA of a request that may come. False: there is nothing to do about such.
  func foresee(_ body: UnsafeRawBufferPointer) -> Bool {
    guard let message = unsafe message(body) else { return true }
    // The span is used only within the call.
    return unsafe answers.foresee(Span(_unsafeBytes: message))
  }

  /// The one plain message of a body. Source: gRPC over HTTP/2, "Length-Prefixed-Message".
  private func message(_ body: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
    // In bounds by the first condition.
    guard body.count >= 5, unsafe body[0] == 0 else { return nil }
    let length = unsafe Int(body[1]) << 24 | Int(body[2]) << 16 | Int(body[3]) << 8 | Int(body[4])
    guard length == body.count - 5, length <= messageLimit else { return nil }
    return unsafe UnsafeRawBufferPointer(rebasing: body[5...])
  }

  /// Tells the tallies of the calls since the last time.
  func report(nanoseconds: Int64) {
    guard uncounted > 0 else { return }
    for tally in tallies { tally.add(uncounted, nanoseconds: nanoseconds) }
    uncounted = 0
  }
}
