import GRPC
import LatchkeyClient
import LatchkeyProtos
import LoadTest
import Synchronization
import TLS
import TransportClient

/// One process's part of a load test: connects, prepares, runs the workers, and gives what they recorded.
struct LoadRunner: Sendable {
  let plan: LoadPlan
  private let identity: ClientChannel
  private let channels: [ClientChannel]
  private let watching: [ClientChannel]
  private let accounts: LoadAccounts
  private let screens: LoadScreens

  init(_ plan: LoadPlan) throws(CommandFailure) {
    self.plan = plan
    let tls: TLSClientContext?
    do throws(TLSError) {
      tls = try plan.client.tls.map { options throws(TLSError) in
        let known = try options.authorities.map { pem throws(TLSError) in try TLSTrust(pem: pem) } ?? .system
        return try TLSClientContext(TLSClientContext.Configuration(trust: plan.trustsAnyone ? .anyone : known))
      }
    } catch {
      throw CommandFailure(.file, "--tls-ca: \(error)")
    }
    func channel(_ address: ServiceAddress) -> ClientChannel {
      var configuration = ClientChannel.Configuration(
        target: ChannelTarget(host: address.host, port: address.port),
        tls: tls,
        decodeDetails: StatusDetails.decode
      )
      // What is measured is what the service does, not what repeating it hides.
      configuration.retry = nil
      return ClientChannel(configuration)
    }
    identity = channel(plan.client.identity)
    channels = (0..<plan.connections).map { _ in channel(plan.client.qr) }
    let perConnection = LoadPlan.watchesPerConnection
    watching = (0..<((plan.waiting + perConnection - 1) / perConnection)).map { _ in channel(plan.client.qr) }
    accounts = LoadAccounts(identity)
    screens = LoadScreens(plan.waiting, watching, clientID: plan.client.clientID)
  }

  func close() async {
    await withDiscardingTaskGroup { group in
      for channel in channels + watching + [identity] { group.addTask { await channel.close(grace: .seconds(1)) } }
    }
  }

  /// Prepares, says how far it is by `stage`, calls `ready` once all is there, runs until the end or until the ledger is
  /// stopped. Errors: what kept the test from starting.
  func run(
    stage: (String) -> Void,
    ready: () async throws(CommandFailure) -> LoadLedger
  ) async throws(CommandFailure) -> LoadRecorder {
    try await open()
    stage("\(LoadReport.counted(channels.count + watching.count, "connection")) open")
    if plan.mode != .poll {
      try await accounts.register(plan.accounts, clientID: plan.client.clientID)
      stage("\(LoadReport.counted(plan.accounts, "account")) registered")
    }
    var codes: [LoadSteps.Code] = []
    if plan.mode == .poll {
      codes = try await issueCodes()
      stage("\(LoadReport.counted(codes.count, "code")) issued")
    }
    let shared = Mutex<LoadLedger?>(nil)
    let result: Result<LoadRecorder, CommandFailure> = await withTaskGroup(of: Void.self) { beside in
      do throws(CommandFailure) {
        try await show(in: &beside, stage) { shared.withLock { $0 } }
        let ledger = try await ready()
        shared.withLock { $0 = ledger }
        beside.addTask { await accounts.keepFresh(ledger) }
        let prepared = prepared(codes, ledger)
        await withTaskGroup(of: Void.self) { group in
          for worker in 0..<plan.workers {
            // Worker k has every workers-th code to itself: no code is polled by two.
            let own = stride(from: worker, to: prepared.count, by: plan.workers).map { prepared[$0] }
            group.addTask { await work(worker, own, ledger) }
          }
        }
        beside.cancelAll()
        return .success(ledger.snapshot())
      } catch {
        beside.cancelAll()
        return .failure(error)
      }
    }
    return try result.get()
  }

  // MARK: - Before the start

  private func open() async throws(CommandFailure) {
    do throws(RPCError) {
      for channel in channels + watching {
        let options = CallOptions(timeout: .seconds(5))
        _ = try await HealthV1.HealthClient(channel: channel).check(HealthV1.HealthCheckRequest(), options: options)
      }
    } catch {
      let connections = LoadReport.counted(channels.count + watching.count, "connection")
      throw CommandFailure(
        .unavailable,
        "cannot open \(connections) to \(plan.client.qr): \(error.message)",
        hint: "is the service running, and does it take as many connections?"
      )
    }
  }

  private func issueCodes() async throws(CommandFailure) -> [LoadSteps.Code] {
    var codes: [LoadSteps.Code] = []
    for number in 0..<plan.codes {
      do throws(RPCError) {
        codes.append(try await LoadSteps.issue(channels[number % channels.count], clientID: plan.client.clientID))
      } catch {
        throw Self.refusedCode(number + 1, plan.codes, error)
      }
    }
    return codes
  }

  private static func refusedCode(_ number: Int, _ all: Int, _ error: RPCError) -> CommandFailure {
    CommandFailure(
      .unavailable,
      "code \(number) of \(all) was refused: \(error.message)",
      hint: "latchkey-qr --limits-issues-per-minute 0 takes as many as asked for"
    )
  }

  /// Opens the screens that wait, so many at a time: the service queues writes, and only so many.
  private func show(
    in group: inout TaskGroup<Void>,
    _ stage: (String) -> Void,
    _ ledger: @escaping @Sendable () -> LoadLedger?
  ) async throws(CommandFailure) {
    for number in 0..<plan.waiting {
      group.addTask { await screens.show(number, ledger) }
      if number % 500 == 499 || number == plan.waiting - 1 {
        while screens.opened <= number {
          if let error = screens.failure { throw Self.refusedCode(screens.opened + 1, plan.waiting, error) }
          try? await Task.sleep(for: .milliseconds(1))
        }
      }
    }
    if plan.waiting > 0 { stage("\(LoadReport.counted(plan.waiting, "screen")) waiting") }
  }

  /// Spreads the codes' first polls over their interval, as screens that were opened at any time.
  private func prepared(_ codes: [LoadSteps.Code], _ ledger: LoadLedger) -> [LoadSteps.Code] {
    codes.enumerated().map { index, code in
      var code = code
      code.nextPoll = ledger.start + code.interval * (Double(index) / Double(codes.count))
      return code
    }
  }

  // MARK: - A worker

  private func work(_ worker: Int, _ codes: [LoadSteps.Code], _ ledger: LoadLedger) async {
    var codes = codes
    var turn = 0
    let channel = channels[worker % channels.count]
    if plan.schedule == nil {
      guard await ledger.sleep(until: plan.ramp * (Double(worker) / Double(plan.workers))) else { return }
    }
    while !ledger.isStopped {
      var intended: Duration
      let number = ledger.takeNumber()
      if let schedule = plan.schedule {
        intended = schedule.due(number)
        guard intended < plan.end, await ledger.sleep(until: intended) else { return }
        let late = ledger.now - intended
        if intended >= plan.ramp { ledger.note { $0.record(late, in: LoadReport.lateness) } }
      } else {
        intended = ledger.now
      }
      if plan.mode == .poll {
        guard !codes.isEmpty else { return }
        let index = turn % codes.count
        turn += 1
        if plan.keepsInterval, plan.schedule == nil {
          // What was due while another code's answer was late counts from when it was due.
          intended = ledger.start.duration(to: codes[index].nextPoll)
          guard intended < plan.end, await ledger.sleep(until: intended) else { return }
        }
        guard ledger.now < plan.end || plan.schedule != nil else { return }
        await poll(&codes[index], channel, intended, ledger)
      } else {
        guard intended < plan.end else { return }
        let token = accounts.token(number)
        if plan.waiting > 0, plan.mode == .watch {
          await wake(token, channel, intended, ledger)
        } else {
          await flow(token, channel, intended, ledger)
        }
      }
    }
  }

  private func poll(
    _ code: inout LoadSteps.Code,
    _ channel: ClientChannel,
    _ intended: Duration,
    _ ledger: LoadLedger
  ) async {
    do throws(RPCError) {
      // A code near its end makes way for a fresh one, before it is polled.
      if code.expires < .now + .seconds(1) {
        code = try await LoadSteps.issue(channel, clientID: plan.client.clientID)
      }
      let request = QRV1.PollSessionRequest(deviceCode: code.deviceCode)
      let answer = try await QRV1.QrSessionServiceClient(channel: channel)
        .pollSession(request, options: CallOptions(timeout: LoadSteps.callTimeout))
      code.interval = .seconds(answer.interval)
      code.nextPoll = .now + code.interval
      if answer.state != .pending { ledger.note { $0.violated("a code nobody scanned is \(answer.state)") } }
      finish(["poll": ledger.now - intended], intended, ledger)
    } catch {
      code.nextPoll = .now + (error.details.retryAfter ?? max(code.interval, .seconds(1)))
      guard !plan.keepsInterval, error.details.reason == "slow_down" else { return fail("poll", error, ledger) }
      // Asked for: the answer of a service that holds its own.
      finish(["poll": ledger.now - intended], intended, ledger)
      ledger.note { $0.noted("polls told to slow down, as --ignore-interval asks for") }
    }
  }

  /// Issue, scan, confirm, redeem; and then the same redeeming poll again, which must bring the same session.
  private func flow(_ token: String, _ channel: ClientChannel, _ intended: Duration, _ ledger: LoadLedger) async {
    let service = QRV1.QrSessionServiceClient(channel: channel)
    var step = "issue"
    var times: [String: Duration] = [:]
    var confirmed: LoadSteps.Code?
    do throws(RPCError) {
      var begun = ContinuousClock.now
      let code = try await LoadSteps.issue(channel, clientID: plan.client.clientID)
      times[step] = begun.duration(to: .now)

      step = "scan"
      begun = .now
      let confirmation = try await LoadSteps.scan(code, service, token)
      times[step] = begun.duration(to: .now)

      step = "confirm"
      begun = .now
      async let waiting = plan.mode == .full ? nil : LoadSteps.result(service, plan.mode, code)
      try await LoadSteps.confirm(confirmation, service, token)
      confirmed = code
      times[step] = begun.duration(to: .now)

      step = "redeem"
      if plan.mode == .full { begun = .now }
      // A waiting screen is told from the confirmation on: its time includes the confirmation's.
      let sid = if let waited = await waiting { try waited.get() } else { try await LoadSteps.redeem(service, code) }
      times[step] = begun.duration(to: .now)
      times["flow"] = ledger.now - intended
      ledger.note { $0.redeemed(sid) }
      confirmed = nil
      finish(times, intended, ledger)

      step = "repeat"
      try await checkRepeat(service, code, sid, ledger)
    } catch {
      fail(step, error, ledger)
      if let confirmed { await recover(service, confirmed, error, ledger) }
    }
  }

  /// Confirms one of the screens that wait: how long until its watch tells, and who gets the sign-in.
  private func wake(_ token: String, _ channel: ClientChannel, _ intended: Duration, _ ledger: LoadLedger) async {
    guard let screen = screens.take() else {
      let now = ledger.now
      ledger.note { $0.failed("no screen waits: every one is being confirmed", at: now) }
      _ = await ledger.sleep(until: now + .milliseconds(10))
      return
    }
    let service = QRV1.QrSessionServiceClient(channel: channel)
    var step = "scan"
    var times: [String: Duration] = [:]
    var confirmed: LoadSteps.Code?
    do throws(RPCError) {
      var begun = ContinuousClock.now
      let confirmation = try await LoadSteps.scan(screen.code, service, token)
      times[step] = begun.duration(to: .now)

      step = "confirm"
      begun = .now
      try await LoadSteps.confirm(confirmation, service, token)
      confirmed = screen.code
      times[step] = begun.duration(to: .now)

      step = "wake"
      times[step] = begun.duration(to: try await screen.confirmed().get())

      step = "redeem"
      begun = .now
      let sid = try await LoadSteps.redeem(service, screen.code)
      times[step] = begun.duration(to: .now)
      times["flow"] = ledger.now - intended
      ledger.note { $0.redeemed(sid) }
      confirmed = nil
      finish(times, intended, ledger)

      step = "repeat"
      try await checkRepeat(service, screen.code, sid, ledger)
    } catch {
      fail(step, error, ledger)
      if let confirmed { await recover(service, confirmed, error, ledger) }
    }
  }

  // MARK: - Promises

  private func checkRepeat(
    _ service: QRV1.QrSessionServiceClient,
    _ code: LoadSteps.Code,
    _ sid: String,
    _ ledger: LoadLedger
  ) async throws(RPCError) {
    let again = try await LoadSteps.redeem(service, code)
    if again != sid { ledger.note { $0.violated("one sign-in was handed over as \(sid) and as \(again)") } }
  }

  /// The answer may be lost, the sign-in must not be: it is asked for again for as long as the service keeps it.
  private func recover(
    _ service: QRV1.QrSessionServiceClient,
    _ code: LoadSteps.Code,
    _ error: RPCError,
    _ ledger: LoadLedger
  ) async {
    for pause in [100, 500, 1000, 2000] {
      try? await Task.sleep(for: .milliseconds(pause))
      guard let sid = try? await LoadSteps.redeem(service, code) else { continue }
      return ledger.note { $0.redeemed(sid) }
    }
    ledger.note { $0.violated("a confirmed sign-in was lost: \(error.code.name) \(error.message)") }
  }

  // MARK: - Notes

  private func finish(_ times: [String: Duration], _ intended: Duration, _ ledger: LoadLedger) {
    let now = ledger.now
    ledger.note { recorder in
      recorder.finished(at: now)
      // The ramp warms up; what is measured comes after it.
      guard intended >= plan.ramp else { return }
      for (name, time) in times { recorder.record(time, in: name) }
    }
  }

  private func fail(_ step: String, _ error: RPCError, _ ledger: LoadLedger) {
    let reason = error.details.reason.map { " \($0)" } ?? ""
    let now = ledger.now
    ledger.note { $0.failed("\(step): \(error.code.name)\(reason): \(error.message)", at: now) }
  }
}
