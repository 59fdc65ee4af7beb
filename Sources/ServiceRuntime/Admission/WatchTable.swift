internal import Callers
package import LatchkeyModel

/// Open watches, shared so that nobody's many keep another from its few (R37, R50).
///
/// A session has a few, and of a subject's, which are a person's, each device has its part: when all are taken, the device
/// with the most makes room for one with less. So whoever got hold of a session cannot keep the owner's phone from being
/// told. Over all subjects the places are shared by source, so that guests, which cost nothing, fill up nobody else's.
///
/// Plain data under its owner's lock. Entering looks at the subject's watches, of which there are at most
/// ``WatchBounds/perSubject``.
package struct WatchTable<Watcher: Sendable>: Sendable {
  private struct Entry {
    let holder: WatchHolder
    let watcher: Watcher
  }

  package enum Entrance: Sendable {
    case entered(UInt64)
    /// Entered, and this one has to end: its place was taken.
    case inPlaceOf(Watcher, UInt64)
    /// The session, the device, the subject or the process has as many as it may.
    case refused
  }

  private let bounds: WatchBounds
  private var entries: [SubjectID: [UInt64: Entry]] = [:]
  private var sources: [String: [UInt64: SubjectID]] = [:]
  private var share: FairShare<String>
  private var next: UInt64 = 0

  package init(_ bounds: WatchBounds) {
    self.bounds = bounds
    share = FairShare(capacity: bounds.total)
  }

  package var count: Int { share.total }

  /// Numbers are never given twice, and grow.
  package mutating func enter(_ holder: WatchHolder, _ watcher: Watcher) -> Entrance {
    let own = entries[holder.subject] ?? [:]
    if let session = holder.session,
      own.values.count(where: { $0.holder.session == session }) >= bounds.perSession
    {
      return .refused
    }
    guard own.values.count(where: { $0.holder.device == holder.device }) < bounds.perDevice else { return .refused }
    var displaced: Watcher?
    if own.count >= bounds.perSubject {
      guard let number = Self.surplus(own, for: holder.device) else { return .refused }
      displaced = leave(number, of: holder.subject)
    }
    // A place that a displaced watch left is there, whoever it was of.
    switch share.take(for: holder.source) {
    case .granted: break
    case .inPlaceOf(let source):
      // Which one of its own a source loses is all the same.
      guard let (number, subject) = sources[source]?.first else { break }
      displaced = leave(number, of: subject)
    case .refused:
      return .refused
    }
    next += 1
    entries[holder.subject, default: [:]][next] = Entry(holder: holder, watcher: watcher)
    sources[holder.source, default: [:]][next] = holder.subject
    if let displaced { return .inPlaceOf(displaced, next) }
    return .entered(next)
  }

  /// Nil when it left before.
  package mutating func leave(_ number: UInt64, of subject: SubjectID) -> Watcher? {
    guard let entry = entries[subject]?.removeValue(forKey: number) else { return nil }
    if entries[subject]?.isEmpty == true { entries[subject] = nil }
    let source = entry.holder.source
    sources[source]?[number] = nil
    if sources[source]?.isEmpty == true { sources[source] = nil }
    share.giveBack(of: source)
    return entry.watcher
  }

  /// The longest watch of the device that has the most, if that is still no less than `device` has afterwards.
  private static func surplus(_ own: [UInt64: Entry], for device: String) -> UInt64? {
    var numbers: [String: [UInt64]] = [:]
    for (number, entry) in own { numbers[entry.holder.device, default: []].append(number) }
    let mine = numbers[device]?.count ?? 0
    guard let most = numbers.max(by: { $0.value.count < $1.value.count }), most.value.count > mine + 1 else {
      return nil
    }
    return most.value.min()
  }

  /// The watchers of one subject.
  package func watchers(of subject: SubjectID) -> [Watcher] { entries[subject]?.values.map(\.watcher) ?? [] }

  package var watchers: [Watcher] { entries.values.flatMap { $0.values.map(\.watcher) } }
}
