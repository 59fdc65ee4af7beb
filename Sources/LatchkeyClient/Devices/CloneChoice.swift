import LatchkeyProtos

/// What a device wants that the service says shares its key with another (`DEVICE_CLONED`), because one was restored from
/// the other's backup, say.
public enum CloneChoice: String, Sendable, CaseIterable {
  /// To go its own way, as a new guest under a new key. The other device keeps the guest.
  case split
  /// To keep the guest, under a new key. The other device loses it, and every session that either had.
  case transfer

  var proto: IdentityV1.CloneChoice {
    switch self {
    case .split: .split
    case .transfer: .transfer
    }
  }
}
