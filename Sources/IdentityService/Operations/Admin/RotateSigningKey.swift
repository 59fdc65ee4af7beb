import GRPC
import LatchkeyProtos

extension AdminHandlers {
  package func rotateSigningKey(
    _ request: IdentityV1.RotateSigningKeyRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RotateSigningKeyResponse {
    let reason = try detail("", reason: request.reason)
    let keys = tokens.keys
    // The disk is not for an event loop.
    let made = await Task.detached { () async -> Result<SigningKeySchedule.Entry, SigningKeyError> in
      do throws(SigningKeyError) {
        return .success(try await keys.rotate())
      } catch {
        return .failure(error)
      }
    }.value
    switch made {
    case .success(let next):
      try await record(try detail("signing key \(next.id)", reason: reason), context)
      return IdentityV1.RotateSigningKeyResponse(
        kid: next.id, signsFrom: GoogleProtobuf.Timestamp(next.notBefore))
    case .failure(.storage(let error)): throw RPCError(storage: error)
    case .failure(let error):
      logger.error("a signing key could not be made", metadata: ["cause": "\(error)"])
      throw RPCError(.unavailable, "the key could not be made; the log says why")
    }
  }
}
