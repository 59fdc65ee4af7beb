internal import GRPC
internal import NIOCore

/// The calls of one header block that may be answered within the read pass that brings their request.
final class DirectCalls {
  private let answer: RPCRoute.DirectAnswer
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
    guard case .call(let route, let timeout) = verdict, let answer = route.answerDirectly else { return nil }
    let context = ServerContext(method: route.method, fields: fields, deadline: nil, peer: peer)
    var conditions: [@Sendable () -> Bool] = []
    var tallies: [any CallTally] = []
    for interceptor in environment.interceptors {
      switch interceptor.directCalls(context) {
      case .look: return nil
      case .pass(let condition): if let condition { conditions.append(condition) }
      case .count(let tally): tallies.append(tally)
      }
    }
    let limit = route.timeLimit ?? environment.configuration.timeLimit(.unary) ?? .seconds(3600)
    let time = min(timeout ?? limit, limit)
    // A call that is about to be over is one for the timers.
    guard time >= .milliseconds(1) else { return nil }
    self.answer = answer
    messageLimit = route.messageLimit
    timeLimit = TimeAmount(time)
    self.conditions = conditions
    self.tallies = tallies
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
    // gRPC over HTTP/2, "Length-Prefixed-Message". In bounds by the first condition; the span is used only within the
    // call.
    guard body.count >= 5, unsafe body[0] == 0 else { return false }
    let length = unsafe Int(body[1]) << 24 | Int(body[2]) << 16 | Int(body[3]) << 8 | Int(body[4])
    guard length == body.count - 5, length <= messageLimit, isPassing else { return false }
    let message = unsafe Span<UInt8>(_unsafeBytes: UnsafeRawBufferPointer(rebasing: body[5...]))
    guard try answer(message, &frame) else { return false }
    uncounted += 1
    return true
  }

  /// Tells the tallies of the calls since the last time.
  func report(nanoseconds: Int64) {
    guard uncounted > 0 else { return }
    for tally in tallies { tally.add(uncounted, nanoseconds: nanoseconds) }
    uncounted = 0
  }
}
