internal import GRPC
internal import NIOCore

/// Calls of one kind that a pass refused before any interceptor saw them, counted so that the interceptors are told of
/// many at a time: a refusal has to cost next to nothing.
struct RefusedCalls {
  private var request: ServerRequest?
  private var count = 0
  /// How many of all kinds in this pass.
  private(set) var inPass = 0
  /// Why the last of them was refused.
  private(set) var reason = RefusedLine.Reason.late(.zero)

  var isEmpty: Bool { request == nil }

  mutating func beginPass() { inPass = 0 }

  mutating func add(_ request: ServerRequest, _ reason: RefusedLine.Reason, _ environment: ServerEnvironment) {
    if self.request !== request {
      // A pass rarely refuses calls of two kinds.
      report(to: environment)
      self.request = request
    }
    count += 1
    inPass += 1
    self.reason = reason
  }

  mutating func report(to environment: ServerEnvironment) {
    guard count > 0 else { return }
    if let method = request?.call?.route.method {
      environment.interceptors.didRefuse(count, of: method, status: .resourceExhausted)
    }
    count = 0
    request = nil
    reason = .late(.zero)
  }
}
