import GRPC
import ServiceRuntime

/// The other instances that give signs of life in the database. One that drains is listened to until it ends.
struct MemberInstances: OtherInstances {
  let membership: Membership
  let resources: ServiceResources

  func channels() async -> [String: any RPCChannel] {
    var addresses: [String: Endpoint] = [:]
    for member in membership.others {
      if let address = Endpoint(member.address) { addresses[member.address] = address }
    }
    let channels = await resources.channels(to: .qr, at: Array(addresses.values))
    return Dictionary(uniqueKeysWithValues: zip(addresses.keys, channels))
  }
}
