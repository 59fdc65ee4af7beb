import ArgumentParser
import Glibc
import LatchkeyClient
import LoadTest

struct LoadCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "load",
    abstract: "Put QR sign-in under load, and check that each sign-in is handed over exactly once.",
    discussion: """
      Without --rate each worker starts its next operation when the last one has ended (closed loop). With --rate \
      operations are due at fixed times, and latency counts from then, also for those that had to queue (open loop).

      Modes: poll asks for the state of codes that nobody scans, each no faster than its interval; full issues, scans, \
      confirms and redeems; long-poll and watch do the same with a screen that waits for the confirmation.

      Exit status: 0 done; 1 a --fail-if condition held; 2 the service broke a promise; 64 wrong usage; 69 the test \
      could not start; 74 a file cannot be written.
      """
  )

  @Option(help: ArgumentHelp("poll, long-poll, watch or full.", valueName: "mode")) var mode = "full"
  @Option(help: ArgumentHelp("Connections to the QR service.", valueName: "n")) var connections = 1
  @Option(help: ArgumentHelp("Operations under way on each connection.", valueName: "n")) var streams: Int?
  @Option(help: ArgumentHelp("Operations under way in all, instead of --streams.", valueName: "n")) var concurrency:
    Int?
  @Option(help: ArgumentHelp("Operations in a second: an open loop.", valueName: "n")) var rate: Double?
  @Option(help: ArgumentHelp("Such as 2s: the load grows for so long, unmeasured.", valueName: "time")) var ramp = "0s"
  @Option(help: ArgumentHelp("Such as 10s, after the ramp.", valueName: "time")) var duration = "10s"
  @Option(help: ArgumentHelp("Processes that share the load.", valueName: "n")) var processes = 1
  @Option(help: ArgumentHelp("Codes to poll; else as many as their interval asks for.", valueName: "n")) var codes: Int?
  @Option(help: ArgumentHelp("Accounts that scan and confirm, in each process.", valueName: "n")) var accounts = 4
  @Flag(help: "Poll faster than the codes' interval: expect slow_down.") var ignoreInterval = false
  @Option(
    help: ArgumentHelp(
      "Such as p99>5ms, redeem.p99>2ms, errors>0, errors>0.1%, rps<1000; repeatable.",
      valueName: "condition"
    )
  )
  var failIf: [String] = []
  @Option(help: ArgumentHelp("Write the results as JSON.", valueName: "path")) var json: String?
  @Option(help: ArgumentHelp("Write the results as one HTML page.", valueName: "path")) var html: String?
  @Option(help: ArgumentHelp("Write PREFIX-latency.svg and PREFIX-throughput.svg.", valueName: "prefix")) var svg:
    String?
  @Option(help: ArgumentHelp("LATCHKEY_IDENTITY_ADDRESS; else 127.0.0.1:7401.", valueName: "host:port")) var identity:
    String?
  @Option(help: ArgumentHelp("LATCHKEY_QR_ADDRESS; else 127.0.0.1:7402.", valueName: "host:port")) var qr: String?
  @Option(help: ArgumentHelp("The application's registered name; else latchkey-demo.", valueName: "name")) var clientID:
    String?
  @Flag(help: "Speak TLS to the services.") var tls = false
  @Option(help: ArgumentHelp("Trust these certificate authorities; implies --tls.", valueName: "pem")) var tlsCA:
    String?
  @Option(help: .hidden) var part: String?

  mutating func run() async throws {
    let output = Output(json: false)
    do throws(CommandFailure) {
      let status = try await load()
      if status != 0 { throw CommandFailure(status == 2 ? .undecided : .refused, "") }
    } catch {
      if !error.message.isEmpty { output.failure(error) }
      throw ExitCode(error.status.rawValue)
    }
  }

  private func load() async throws(CommandFailure) -> Int32 {
    var thresholds: [LoadThreshold] = []
    for text in failIf {
      do throws(LoadThreshold.Malformed) { thresholds.append(try LoadThreshold(text)) } catch {
        throw .usage("--fail-if \(error)")
      }
    }
    let plan = try plan()
    try Self.allowFiles(plan.connections)
    let arguments = Array(CommandLine.arguments.dropFirst())
    let others = try LoadProcesses(count: part == nil ? processes - 1 : 0, arguments: arguments)
    let runner = try LoadRunner(plan)
    var progress: Task<Void, Never>?
    var result: Result<LoadRecorder, CommandFailure>
    do throws(CommandFailure) {
      let isWatched = part == nil && isatty(STDERR_FILENO) == 1
      result = .success(
        try await runner.run { ledger in
          if isWatched { progress = Task { await Self.showProgress(ledger, plan, processes) } }
        }
      )
    } catch {
      result = .failure(error)
    }
    progress?.cancel()
    await progress?.value
    await runner.close()
    if let part {
      try OutputFile.write(Array(try result.get().lines().utf8), to: part)
      return 0
    }
    let parts = try others.finish()
    var recorder = try result.get()
    for part in parts { recorder.merge(part) }
    return try report(recorder, plan, thresholds)
  }

  private func report(
    _ recorder: LoadRecorder,
    _ plan: LoadPlan,
    _ thresholds: [LoadThreshold]
  ) throws(CommandFailure) -> Int32 {
    let loop = rate.map { "open loop, \($0) a second" } ?? "closed loop"
    let report = LoadReport(
      title: "latchkey load: \(mode), \(loop); \(processes) x \(plan.connections) connections, "
        + "\(processes) x \(plan.workers) workers\(plan.client.tls == nil ? "" : ", TLS")",
      primary: plan.mode == .poll ? "poll" : "flow",
      measured: plan.duration,
      recorder: recorder,
      thresholds: thresholds
    )
    Output(json: false).progress(report.text())
    if let json { try OutputFile.write(report.json().encoded(), to: json) }
    if let html { try OutputFile.write(Array(report.html().utf8), to: html) }
    if let svg {
      try OutputFile.write(Array(report.latencySVG().utf8), to: "\(svg)-latency.svg")
      try OutputFile.write(Array(report.throughputSVG().utf8), to: "\(svg)-throughput.svg")
    }
    return recorder.violationCount > 0 ? 2 : report.isCrossed || report.operations == 0 ? 1 : 0
  }

  // MARK: What the flags come to

  private func plan() throws(CommandFailure) -> LoadPlan {
    guard let mode = LoadPlan.Mode(rawValue: mode) else { throw .usage("--mode: poll, long-poll, watch or full") }
    guard (1...64).contains(processes) else { throw .usage("--processes: 1 to 64") }
    guard (1...100_000).contains(connections) else { throw .usage("--connections: 1 to 100000") }
    guard (1...1000).contains(accounts) else { throw .usage("--accounts: 1 to 1000") }
    guard streams == nil || concurrency == nil else { throw .usage("--streams or --concurrency, not both") }
    if let streams, !(1...1000).contains(streams) { throw .usage("--streams: 1 to 1000, what one connection carries") }
    let workers = concurrency ?? connections * (streams ?? (rate == nil ? 16 : 100))
    guard (connections...1000 * connections).contains(workers) else {
      throw .usage("--concurrency: 1 to 1000 for each connection, that is \(connections) to \(1000 * connections)")
    }
    if let rate, !(rate > 0 && rate <= 1_000_000) { throw .usage("--rate: above 0, up to 1000000 in a second") }
    if let codes, !(workers...1_000_000).contains(codes) {
      throw .usage("--codes: \(workers) to 1000000, at least one for each of the \(workers) workers")
    }
    let ramp = try Self.time(ramp, "--ramp")
    let duration = try Self.time(duration, "--duration")
    guard duration > .zero else { throw .usage("--duration: above 0s") }
    let share = rate.map { $0 / Double(processes) }
    // The service's own default interval is 5 s: so many codes let an open loop keep it, with one in five to spare.
    let needed = share.map { Int($0 * (ignoreInterval ? 0 : 6)) } ?? 0
    return LoadPlan(
      mode: mode,
      client: try client(),
      connections: connections,
      workers: workers,
      schedule: share.map { LoadSchedule(rate: $0, ramp: ramp) },
      ramp: ramp,
      duration: duration,
      codes: codes ?? max(workers, needed),
      accounts: accounts,
      keepsInterval: !ignoreInterval
    )
  }

  private func client() throws(CommandFailure) -> ClientConfiguration {
    var words = ["--state-dir", "."]
    for (name, value) in [("identity", identity), ("qr", qr), ("client-id", clientID), ("tls-ca", tlsCA)] {
      if let value { words += ["--\(name)", value] }
    }
    if tls { words.append("--tls") }
    guard let options = try? DeviceOptions.parse(words) else { throw .usage("the addresses cannot be read") }
    return try options.settings().client
  }

  private static func time(_ text: String, _ flag: String) throws(CommandFailure) -> Duration {
    for (unit, factor) in [("ms", 0.001), ("s", 1.0), ("m", 60.0)] where text.hasSuffix(unit) {
      guard let value = Double(text.dropLast(unit.count)), (0...86_400).contains(value * factor) else { break }
      return .seconds(value * factor)
    }
    throw .usage("\(flag): a time such as 500ms, 10s or 2m, at most a day")
  }

  /// Raises the limit on open files to what the connections need, or says which limit stands in the way.
  private static func allowFiles(_ connections: Int) throws(CommandFailure) {
    var limit = rlimit()
    let needed = rlim_t(connections + 64)
    // getrlimit fills the struct and setrlimit reads it; both keep nothing.
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    guard needed <= limit.rlim_max else {
      throw CommandFailure(
        .usage,
        "\(connections) connections need \(needed) open files, and this process may have \(limit.rlim_max)",
        hint: "ulimit -n \(needed), or fewer --connections with more --processes"
      )
    }
    guard limit.rlim_cur < needed else { return }
    limit.rlim_cur = limit.rlim_max
    unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }

  private static func showProgress(_ ledger: LoadLedger, _ plan: LoadPlan, _ processes: Int) async {
    var last = 0
    let share = processes > 1 ? " (this process, 1 of \(processes))" : ""
    while (try? await Task.sleep(for: .seconds(1))) != nil {
      let counts = ledger.counts
      let time = ledger.now.components.seconds
      let all = (plan.ramp + plan.duration).components.seconds
      let line = "\r\u{1B}[K\(time)/\(all) s  \(counts.done - last) a second  \(counts.done) done  "
      fputs(line + "\(counts.failed) failed\(share)")
      last = counts.done
    }
    fputs("\r\u{1B}[K")
  }

  private static func fputs(_ text: String) {
    // write reads the array's bytes and keeps nothing; a lost progress line is no loss.
    _ = unsafe Array(text.utf8).withUnsafeBytes { unsafe write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }
}
