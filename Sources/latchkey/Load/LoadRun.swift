import Glibc
import LatchkeyClient
import LoadTest
import Synchronization
import UnixSignals

/// One run of a test in this process: starts it together with the others, tells how far it is, and ends it early when
/// asked to.
struct LoadRun {
  struct Result {
    var recorder: LoadRecorder
    /// How long the workers ran.
    var lasted: Duration
    /// What ended the run early.
    var signal: Int32?
    /// Processor seconds from the first operation to the last.
    var cpu: (server: Double?, load: Double)?
  }

  private let plan: LoadPlan
  private let isPart: Bool
  private let others: LoadProcesses
  private let processes: Int
  private let gate = LoadGate()

  init(_ plan: LoadPlan, isPart: Bool, others: LoadProcesses, processes: Int) {
    self.plan = plan
    self.isPart = isPart
    self.others = others
    self.processes = processes
  }

  func run() async throws(CommandFailure) -> Result {
    defer { others.end() }
    let signalled = Signalled()
    let watch = isPart ? nil : Task { await signalled.watch() }
    defer { watch?.cancel() }
    let runner = try LoadRunner(plan)
    let progress = LoadProgress(plan, isSilent: isPart)
    let (outcome, plan, gate) = (Outcome(), plan, gate)
    let work = Task {
      do throws(CommandFailure) {
        let recorder = try await runner.run(stage: progress.stage) { () async throws(CommandFailure) in
          try await gate.pass()
        }
        outcome.set(.success(recorder), lasted: gate.ledger?.now ?? plan.end)
      } catch {
        outcome.set(.failure(error), lasted: .zero)
      }
      await runner.close()
    }
    let meter = CPUMeter(plan.client.qr)
    let failure = await drive(outcome, signalled, progress, meter)
    await work.value
    progress.clear()
    if let failure { throw failure }
    guard let (result, lasted) = outcome.get() else { throw CommandFailure(.unavailable, "the test has no results") }
    var recorder = try result.get()
    for part in try await others.finish() { recorder.merge(part) }
    return Result(recorder: recorder, lasted: lasted, signal: signalled.number, cpu: isPart ? nil : meter.used())
  }

  /// Until the runner is done. Returns why there will be no results.
  private func drive(
    _ outcome: Outcome,
    _ signalled: Signalled,
    _ shown: LoadProgress,
    _ meter: CPUMeter
  ) async -> CommandFailure? {
    var progress = shown
    var failure: CommandFailure?
    var isAnnounced = false
    var lastCount = ContinuousClock.now
    while outcome.get() == nil {
      others.listen()
      let heard = isPart ? LoadPart.heard() : nil
      if let ledger = gate.ledger {
        if signalled.number != nil || heard == "stop\n" {
          ledger.stop()
          others.stop()
        }
        progress.show(ledger.counts + others.counts, at: ledger.now)
        if isPart, lastCount.duration(to: .now) > .milliseconds(500) {
          lastCount = .now
          let counts = ledger.counts
          LoadPart.say("count \(counts.done) \(counts.failed)\n")
        }
      } else if let number = signalled.number {
        failure = failure ?? CommandFailure(.unavailable, "ended by signal \(number) before the start")
        gate.shut()
      } else if !others.areAlive {
        failure = failure ?? CommandFailure(.unavailable, "one of the \(processes) processes ended: see above")
        gate.shut()
      } else if gate.isReady, !isAnnounced, others.areReady {
        isAnnounced = true
        if isPart {
          LoadPart.say("ready\n")
        } else {
          meter.begin()
          others.go()
          gate.open()
        }
      } else if heard == "go\n" {
        gate.open()
      }
      try? await Task.sleep(for: .milliseconds(gate.ledger == nil ? 2 : 20))
    }
    return failure
  }

  /// What a run costs the service and the load. The further processes' part counts as a whole, their preparations
  /// included: the kernel tells of it when they have ended.
  private final class CPUMeter: Sendable {
    private let server: LoadServer?
    private let start = Mutex<(server: Double?, load: Double)?>(nil)

    init(_ address: ServiceAddress) { server = LoadServer(address) }

    func begin() {
      start.withLock { $0 = (server?.seconds, LoadMachine.loadSeconds()) }
    }

    func used() -> (server: Double?, load: Double)? {
      guard let start = start.withLock({ $0 }) else { return nil }
      let server = server?.seconds.flatMap { now in start.server.map { max(0, now - $0) } }
      return (server, max(0, LoadMachine.loadSeconds() - start.load))
    }
  }

  /// What the runner came to.
  private final class Outcome: Sendable {
    private let value = Mutex<(Swift.Result<LoadRecorder, CommandFailure>, Duration)?>(nil)

    func set(_ result: Swift.Result<LoadRecorder, CommandFailure>, lasted: Duration) {
      value.withLock { $0 = (result, lasted) }
    }

    func get() -> (Swift.Result<LoadRecorder, CommandFailure>, Duration)? { value.withLock { $0 } }
  }

  /// Which signal asked the run to end. A second one ends the process at once; the others notice, and end too.
  private final class Signalled: Sendable {
    private let value = Mutex<Int32?>(nil)

    var number: Int32? { value.withLock { $0 } }

    func watch() async {
      for await signal in await UnixSignalsSequence(trapping: .sigint, .sigterm) {
        let number = signal == .sigint ? SIGINT : SIGTERM
        let isSecond = value.withLock { value in
          defer { value = value ?? number }
          return value != nil
        }
        if isSecond { _exit(128 + number) }
      }
    }
  }
}
