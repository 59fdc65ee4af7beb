/// Something about the two devices that speaks against their being in one room (S10). The raw value is the name on the
/// wire and in the configuration.
package enum QRSignal: String, Sendable, CaseIterable {
  /// Not in one IPv4 /24 or IPv6 /48.
  case differentNetwork = "different_network"
  /// The address of one of them is not known.
  case unknownNetwork = "unknown_network"
  /// Further apart than the configured distance.
  case far
  /// Places are known, but not that of one of them.
  case unknownPlace = "unknown_place"
  /// The phone heard no beacon of the screen.
  case noBeacon = "no_beacon"
  /// The phone heard beacons, none of them the screen's.
  case wrongBeacon = "wrong_beacon"
}
