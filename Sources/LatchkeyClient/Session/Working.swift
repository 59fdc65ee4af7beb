import GRPC

/// A request that may have to carry work.
struct Working<Request: Sendable>: Sendable {
  let request: Request
  let adding: @Sendable (inout Request, _ challenge: String, _ solution: [UInt8]) -> Void

  init(
    _ request: Request, adding: @escaping @Sendable (inout Request, _ challenge: String, _ solution: [UInt8]) -> Void
  ) {
    self.request = request
    self.adding = adding
  }

  /// Makes the call; asked for work (`CHALLENGE_REQUIRED`), does it and makes the call once more.
  func send<Answer>(_ call: (Request) async throws(RPCError) -> Answer) async throws(RPCError) -> Answer {
    do throws(RPCError) {
      return try await call(request)
    } catch {
      guard error.details.reason == "CHALLENGE_REQUIRED",
        let challenge = error.details.info.first(where: { $0.key == "challenge" })?.value,
        let bits = error.details.info.first(where: { $0.key == "pow_bits" }).flatMap({ Int32($0.value) }),
        let solution = try? ProofOfWork.solution(of: challenge, leadingZeroBits: bits)
      else { throw error }
      var request = request
      adding(&request, challenge, solution)
      return try await call(request)
    }
  }
}
