import ArgumentParser
import Cryptography
import Glibc
import LatchkeyClient
import LatchkeyModel
import LoadTest

struct LoadCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "load",
    abstract: "Put QR sign-in under load, and check that each sign-in is handed over exactly once.",
    discussion: """
      Without --rate each worker starts its next operation when the last one has ended (closed loop); the latencies \
      are corrected for what a slow operation kept from starting. With --rate operations are due at fixed times, and \
      latency counts from then, also for those that had to queue (open loop).

      Modes: poll asks for the state of codes that nobody scans, each no faster than its interval; full issues, scans, \
      confirms and redeems; long-poll and watch do the same with a screen that waits for the confirmation. With \
      --waiting, watch confirms screens that wait already, and wake is the time until their watch tells.

      Every sign-in that was confirmed has to be handed over exactly once, and the report says whether it was.

      Exit status: 0 passed; 1 failed: a --fail-if condition held, more than one operation in a hundred failed and no \
      condition on errors says otherwise, a sign-in was lost or handed over twice, or nothing was measured; 2 \
      wrong usage, or a fault: the test could not run, or its results could not be written; 130 or 143 \
      ended early by SIGINT or SIGTERM, with a report of the time before.

      A service lets one machine do only so much: latchkey-qr --dev and latchkey-identity --dev are for tests.
      """,
    examples: [
      "latchkey load --mode poll --duration 2s",
      "latchkey load --mode full --rate 20 --duration 2s --fail-if 'errors>5%'",
      "latchkey load --mode watch --waiting 50 --rate 9 --duration 2s --json watch.json",
    ],
    subcommands: [LoadCompareCommand.self]
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
  @Option(help: ArgumentHelp("Screens that watch beside the load, 100 to a connection of theirs.", valueName: "n"))
  var waiting = 0
  @Flag(help: "Poll faster than the codes' interval; being told to slow down is no error then.") var ignoreInterval =
    false
  @Option(
    help: ArgumentHelp(
      "Such as p99>5ms, redeem.p99>2ms, errors>0, errors>0.1%, rps<1000; repeatable. None on errors is errors>1%.",
      valueName: "condition"
    )
  )
  var failIf: [String] = []
  @Option(help: ArgumentHelp("Write the results as JSON.", valueName: "path")) var json: String?
  @Option(help: ArgumentHelp("Write the results as one HTML page.", valueName: "path")) var html: String?
  @Option(help: ArgumentHelp("Write PREFIX-latency.svg and PREFIX-throughput.svg.", valueName: "prefix")) var svg:
    String?
  @Option(
    help: ArgumentHelp(
      "Write PREFIX-SERIES.hgrm, the latencies as HdrHistogram's tools read them.", valueName: "prefix")
  )
  var hgrm: String?
  @Option(help: ArgumentHelp("LATCHKEY_IDENTITY_ADDRESS; else 127.0.0.1:7401.", valueName: "host:port")) var identity:
    String?
  @Option(help: ArgumentHelp("LATCHKEY_QR_ADDRESS; else 127.0.0.1:7402.", valueName: "host:port")) var qr: String?
  @Option(help: ArgumentHelp("The application's registered name; else latchkey-demo.", valueName: "name")) var clientID:
    String?
  @Flag(help: "Speak TLS to the services.") var tls = false
  @Option(help: ArgumentHelp("Trust these certificate authorities; implies --tls.", valueName: "pem")) var tlsCA:
    String?
  @Flag(help: "Speak TLS and take any certificate: for tests only.") var tlsInsecure = false
  @OptionGroup var color: ColorOption
  @Flag(help: .hidden) var part = false

  mutating func run() async throws {
    var status = Self.faultStatus
    do throws(CommandFailure) {
      status = try await load()
    } catch {
      Output(json: false).failure(error)
    }
    if status != 0 { throw ExitCode(status) }
  }

  /// Wrong usage, or a test that could not run: it says nothing about the service.
  static let faultStatus: Int32 = 2

  private func load() async throws(CommandFailure) -> Int32 {
    var thresholds: [LoadThreshold] = []
    for text in failIf {
      do throws(LoadThreshold.Malformed) { thresholds.append(try LoadThreshold(text)) } catch {
        throw .usage("--fail-if \(error)")
      }
    }
    if !thresholds.contains(where: { $0.metric == .errors || $0.metric == .errorShare }) {
      thresholds.append(.standard)
    }
    let plan = try plan()
    try Self.allowFiles(plan.connections + plan.waiting / LoadPlan.watchesPerConnection)
    // A process that goes while it is spoken to is noticed when it is listened to.
    signal(SIGPIPE, SIG_IGN)
    if part {
      // Ctrl-C reaches all processes of a terminal: the parent decides.
      signal(SIGINT, SIG_IGN)
      let run = try await LoadRun(plan, isPart: true, others: LoadProcesses(count: 0, arguments: []), processes: 1)
        .run()
      LoadPart.say(run.recorder.lines())
      return 0
    }
    let arguments = Array(CommandLine.arguments.dropFirst())
    let others = try LoadProcesses(count: processes - 1, arguments: arguments)
    let run = try await LoadRun(plan, isPart: false, others: others, processes: processes).run()
    let status = try report(run, plan, thresholds)
    return run.signal.map { 128 + $0 } ?? status
  }

  private func report(
    _ run: LoadRun.Result,
    _ plan: LoadPlan,
    _ thresholds: [LoadThreshold]
  ) throws(CommandFailure) -> Int32 {
    let isPaced = plan.mode == .poll && plan.keepsInterval
    let loop =
      rate.map { "open loop, \(LoadReport.short($0)) a second" } ?? (isPaced ? "at the codes' interval" : "closed loop")
    let each = processes > 1 ? "\(processes) processes, each with " : ""
    var title = "\(mode), \(loop); \(each)\(LoadReport.counted(plan.connections, "connection")), "
    title += LoadReport.counted(plan.workers, "worker")
    if plan.waiting > 0 { title += ", \(LoadReport.counted(plan.waiting, "waiting screen"))" }
    if plan.client.tls != nil { title += ", TLS" }
    if let signal = run.signal { title += "; ended early by \(signal == SIGINT ? "SIGINT" : "SIGTERM")" }
    var report = LoadReport(
      title: title,
      primary: plan.mode == .poll ? "poll" : "flow",
      ramp: plan.ramp,
      measured: run.signal == nil ? plan.duration : min(plan.duration, max(.zero, run.lasted - plan.ramp)),
      isOpenLoop: plan.schedule != nil || isPaced,
      recorder: run.recorder,
      thresholds: thresholds
    )
    report.setup = setup(plan)
    report.cpu = run.cpu
    Output(json: false, fault: Self.faultStatus).progress(
      report.text(columns: Output.columns ?? .max))
    if let json { try OutputFile.write(report.json().encoded(), to: json) }
    if let html { try OutputFile.write(Array(report.html().utf8), to: html) }
    for (name, plot) in [("latency", report.latencyPlot()), ("throughput", report.throughputPlot())] {
      if let svg { try OutputFile.write(Array(plot.svg().utf8), to: "\(svg)-\(name).svg") }
    }
    for name in report.measuredNames {
      guard let hgrm, let text = report.hgrm(name) else { continue }
      try OutputFile.write(Array(text.utf8), to: "\(hgrm)-\(name).hgrm")
    }
    return report.hasFailed ? 1 : 0
  }

  /// What was asked for, in full, and what it ran on.
  private func setup(_ plan: LoadPlan) -> [JSONValue.Member] {
    let options: JSONValue = [
      "mode": .string(mode), "connections": .integer(Int64(plan.connections)), "workers": .integer(Int64(plan.workers)),
      "rate": rate.map { .number($0) } ?? .null, "ramp_s": .number(plan.ramp.inSeconds),
      "duration_s": .number(plan.duration.inSeconds), "processes": .integer(Int64(processes)),
      "codes": .integer(Int64(plan.codes)), "accounts": .integer(Int64(plan.accounts)),
      "waiting": .integer(Int64(plan.waiting)), "ignore_interval": .bool(ignoreInterval),
      "tls": .bool(plan.client.tls != nil), "fail_if": .array(failIf.map { .string($0) }),
    ]
    let server = LoadServer(plan.client.qr)?.version
    return [
      .init("options", options),
      .init("versions", ["latchkey": .string(Version.current), "server": server.map { .string($0) } ?? .null]),
      .init("machine", LoadMachine.description()),
    ]
  }

  // MARK: What the flags come to

  private func plan() throws(CommandFailure) -> LoadPlan {
    guard let mode = LoadPlan.Mode(rawValue: mode) else { throw .usage("--mode: poll, long-poll, watch or full") }
    guard (1...64).contains(processes) else { throw .usage("--processes: 1 to 64") }
    guard (1...100_000).contains(connections) else { throw .usage("--connections: 1 to 100000") }
    guard (1...1000).contains(accounts) else { throw .usage("--accounts: 1 to 1000") }
    guard (0...1_000_000).contains(waiting) else { throw .usage("--waiting: 0 to 1000000") }
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
    guard !(tlsInsecure && tlsCA != nil) else { throw .usage("--tls-insecure checks nothing: not with --tls-ca") }
    let share = rate.map { $0 / Double(processes) }
    // The service's own default interval is 5 s: so many codes let an open loop keep it, with one in five to spare.
    let needed = share.map { Int($0 * (ignoreInterval ? 0 : 6)) } ?? 0
    return LoadPlan(
      mode: mode,
      client: try client(),
      trustsAnyone: tlsInsecure,
      connections: connections,
      workers: workers,
      schedule: share.map { LoadSchedule(rate: $0, ramp: ramp) },
      ramp: ramp,
      duration: duration,
      codes: codes ?? max(workers, needed),
      accounts: accounts,
      waiting: waiting,
      keepsInterval: !ignoreInterval
    )
  }

  private func client() throws(CommandFailure) -> ClientConfiguration {
    var words = ["--state-dir", "."]
    for (name, value) in [("identity", identity), ("qr", qr), ("client-id", clientID), ("tls-ca", tlsCA)] {
      if let value { words += ["--\(name)", value] }
    }
    if tls || tlsInsecure { words.append("--tls") }
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
}
