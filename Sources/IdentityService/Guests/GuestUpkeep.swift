import ServiceRuntime

/// Counts guests, and forgets those that nobody uses, so that there is room for new ones.
package struct GuestUpkeep: Sendable {
  let room: GuestRoom
  package let retention: GuestRetention

  var tasks: [BackgroundTask] {
    [
      BackgroundTask("guest count") { await count() },
      BackgroundTask("guest retention") { await keep() },
    ]
  }

  private func count() async {
    repeat { await room.count() } while await pause(Limits.guestCountInterval)
  }

  private func keep() async {
    while await pause(Limits.retentionInterval) { await keepOnce() }
  }

  package func keepOnce() async {
    let sweep = await retention.sweep()
    await room.count()
    // Those go first whose data is not lost by it; when they are known and too few, as many as are needed of the others.
    guard !sweep.isBrokenOff, room.excess > 0 else { return }
    await retention.sweep(givingUpDataFor: room)
    await room.count()
  }
}
