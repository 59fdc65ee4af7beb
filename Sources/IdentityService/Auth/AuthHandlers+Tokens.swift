import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AuthHandlers {
  func verified(_ accessToken: String, at now: LatchkeyModel.Timestamp) throws(RPCError) -> AccessTokenClaims {
    do throws(TokenError) {
      return try core.tokens.verify(accessToken, at: now)
    } catch {
      throw RPCError(error)
    }
  }
}
