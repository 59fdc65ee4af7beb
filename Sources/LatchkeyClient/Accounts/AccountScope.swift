import Cryptography
import Glibc

/// Where the app keeps what belongs to whoever uses the device, and the one way from one subject to the next.
///
/// ```
///  nobody ── enter(A) ──▶ A ── enter(B) ──▶ switching ── every step done ──▶ B
///                                            │     ▲
///                                            └─────┘ a step fails, or the app dies: enter(B) goes on at that step
/// ```
/// Enter with the session of every sign-in, sign-out and start of the app. The switch is a barrier: writes that were
/// begun in the old ``AccountSpace`` end before it completes, later ones are refused, and nobody writes to the new one
/// before every ``AccountStep`` has run, in order, once. A guest that became the account keeps its namespace: nothing is
/// begun anew. One process of the app owns a directory.
public actor AccountScope {
  private let root: String
  private let steps: [AccountStep]
  private let patience: Duration
  private var space: AccountSpace?
  /// The step at which a switch waits to be gone on with.
  private var failedStep: String?
  /// The switch that was asked for last.
  private var last: Task<Result<AccountSpace, AccountScopeError>, Never>?

  /// - Parameters:
  ///   - directory: holds a directory for each subject, and the journal. Made when it is first needed.
  ///   - steps: what begins anew, in order. Their names differ.
  ///   - patience: how long a switch waits for writes under way before it cancels them. One that ignores that holds the
  ///     switch up.
  public init(directory: String, steps: [AccountStep], patience: Duration = .seconds(10)) {
    precondition(
      Set(steps.map(\.name)).count == steps.count, "two steps have one name: the journal could not tell them")
    root = directory
    self.steps = steps
    self.patience = patience
  }

  /// The space of whoever uses the device. Waits for a switch that is under way.
  public func current() async throws(AccountScopeError) -> AccountSpace {
    guard !AccountSpace.isInside else { throw .reentered }
    if let last { _ = await last.value }
    if let failedStep { throw .unfinished(step: failedStep) }
    guard let space else { throw .nobody }
    return space
  }

  /// Makes the session's subject the one whose space is open. Does nothing when it is. Switches that are asked for at
  /// the same time happen one after the other.
  ///
  /// - Parameter change: of the sign-in, if it was one.
  public func enter(_ session: Session, _ change: AccountChange? = nil) async throws(AccountScopeError) -> AccountSpace
  {
    guard !AccountSpace.isInside else { throw .reentered }
    let namespace = session.storageNamespace
    let before = last
    let wipes = change?.wipeRequired == true
    // A task of its own: a switch that has begun is not left half-way because its caller was cancelled.
    let task = Task { () async -> Result<AccountSpace, AccountScopeError> in
      _ = await before?.value
      do throws(AccountScopeError) {
        return .success(try await self.change(to: namespace, wipes))
      } catch {
        return .failure(error)
      }
    }
    last = task
    return try await task.value.get()
  }

  /// Nobody uses the device any more, or the app ends: waits for writes under way and takes no more.
  public func close() async {
    if let last, !AccountSpace.isInside { _ = await last.value }
    await space?.leave(patience: patience)
    space = nil
  }

  private func change(to namespace: String, _ wipes: Bool) async throws(AccountScopeError) -> AccountSpace {
    guard Self.isUsable(namespace) else { throw .unusableNamespace(namespace) }
    if let space, space.namespace == namespace { return space }
    await space?.leave(patience: patience)
    space = nil
    let entered = AccountSpace(namespace: namespace, directory: "\(root)/\(namespace)")
    try makeDirectory(entered.directory)
    var journal = try AccountJournal.read(in: root)
    if journal.next != nil || journal.current != namespace {
      // Another target than that of an unfinished switch begins with the first step again.
      if journal.next != namespace { (journal.next, journal.done) = (namespace, []) }
      journal.wipeRequired = journal.wipeRequired || wipes
      try journal.write(in: root)
      try await runSteps(&journal, entered)
      try AccountJournal(current: namespace).write(in: root)
    }
    failedStep = nil
    space = entered
    return entered
  }

  private func runSteps(_ journal: inout AccountJournal, _ entered: AccountSpace) async throws(AccountScopeError) {
    let change = AccountSwitch(
      previousNamespace: journal.current, space: entered, wipeRequired: journal.wipeRequired)
    for step in steps where !journal.done.contains(step.name) {
      do {
        try await AccountSpace.$isInside.withValue(true) { try await step.run(change) }
      } catch {
        failedStep = step.name
        // What the step left running may not go on writing.
        await entered.leave(patience: .zero)
        throw .stepFailed(step: step.name, reason: "\(error)")
      }
      journal.done.append(step.name)
      try journal.write(in: root)
    }
  }

  /// A name comes from the service: one with a slash or a dot would be another directory.
  private static func isUsable(_ namespace: String) -> Bool {
    let isPlain = namespace.utf8.allSatisfy { byte in
      (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        || byte == UInt8(ascii: "-")
    }
    return isPlain && (1...64).contains(namespace.utf8.count)
  }

  private func makeDirectory(_ path: String) throws(AccountScopeError) {
    do throws(SecretFileError) { try SecretFile.makeDirectory(path) } catch { throw .storage(error.description) }
  }
}
