import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AccountHandlers {
  package func updateProfile(
    _ request: IdentityV1.UpdateProfileRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.UpdateProfileResponse {
    guard let profile = request.profile else { throw .invalid("profile", "is missing") }
    let fields = ["name", "avatar_url", "locale"]
    if let unknown = request.updateMask.firstIndex(where: { !fields.contains($0) }) {
      throw .invalid("update_mask[\(unknown)]", "must be name, avatar_url or locale")
    }
    let changed = Set(request.updateMask.isEmpty ? fields : request.updateMask)
    let name = try RequestFields.nickname(changed.contains("name") ? profile.name : "", "profile.name")
    let avatar = try RequestFields.avatar(
      changed.contains("avatar_url") ? profile.avatarURL : "", "profile.avatar_url")
    let locale = try RequestFields.locale(changed.contains("locale") ? profile.locale : "", "profile.locale")
    let (caller, now) = (try context.callerSession(), clock.now())
    let updated = try await perform(
      UpdateProfile(by: caller, at: now) { profile in
        if changed.contains("name") { profile.nickname = name }
        if changed.contains("avatar_url") { profile.avatarURL = avatar?.description }
        if changed.contains("locale") { profile.locale = locale }
      })
    guard let updated else { throw .sessionRevoked }
    return IdentityV1.UpdateProfileResponse(profile: CommonV1.Profile(updated))
  }
}
