import GRPC
import ServiceRuntime

/// The other instances that give signs of life in the database. One that drains is listened to until it ends.
struct MemberInstances: OtherInstances {
  let membership: Membership
  let resources: ServiceResources

  func channels() async -> [String: any RPCChannel] {
    var channels: [String: any RPCChannel] = [:]
    for member in membership.others {
      guard let address = Endpoint(member.address) else { continue }
      channels[member.address] = resources.channel(to: .qr, at: address)
    }
    return channels
  }
}
