import LatchkeyModel

/// What changes, sweeps and waiting need of one session besides its entry.
struct PollLinks {
  let id: QRSessionID
  /// Neighbours in the list of a wheel slot, or in the list of free entries.
  var next = PollEntry.none
  var previous = PollEntry.none
  /// The first of those who wait for a change.
  var firstWaiter = PollEntry.none

  init(_ id: QRSessionID) {
    self.id = id
  }
}
