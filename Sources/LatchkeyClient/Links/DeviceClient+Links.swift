import GRPC
import LatchkeyProtos

extension DeviceClient {
  /// Everything that leads to the account that uses this device.
  public func identities() async throws(ClientError) -> [LinkedIdentity] {
    let service = IdentityV1.LinkServiceClient(channel: identity)
    let answer = try await authorized { options throws(RPCError) in
      try await service.listIdentities(IdentityV1.ListIdentitiesRequest(), options: options)
    }
    return answer.identities.map { LinkedIdentity($0) }
  }

  /// Lets another identifier lead to the account.
  ///
  /// - Parameter password: not needed, for a recent proof is; where it is given it has to be the account's.
  public func link(identifier: String, password: String = "") async throws(ClientError) -> LinkedIdentity {
    let service = IdentityV1.LinkServiceClient(channel: identity)
    let request = IdentityV1.LinkIdentityRequest(identity: .identifier(identifier), password: password)
    let answer = try await authorized { options throws(RPCError) in
      try await service.linkIdentity(request, options: options)
    }
    return LinkedIdentity(try require(answer.identity, "LinkIdentityResponse.identity"))
  }

  /// Errors: the service's `LAST_IDENTITY`, because nothing would lead to the account any more.
  public func unlink(identityID: String, password: String = "") async throws(ClientError) {
    let service = IdentityV1.LinkServiceClient(channel: identity)
    let request = IdentityV1.UnlinkIdentityRequest(identityID: identityID, password: password)
    _ = try await authorized { options throws(RPCError) in
      try await service.unlinkIdentity(request, options: options)
    }
  }
}
