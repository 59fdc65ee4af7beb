import GRPC
import LatchkeyProtos

extension AuthHandlers {
  /// The public keys that verify access tokens, as the JSON of a JWK Set.
  package func getJwks(
    _ request: IdentityV1.GetJwksRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.GetJwksResponse {
    IdentityV1.GetJwksResponse(jwksJSON: String(decoding: try tokens.publishedKeys().json.encoded(), as: UTF8.self))
  }
}
