import Cryptography
import GRPC
import LatchkeyClient
import LatchkeyModel
import LatchkeyProtos
import LoadTest
import TLS
import Transport

/// One process's part of a load test: connects, prepares, runs the workers, and gives what they recorded.
struct LoadRunner: Sendable {
  /// A code that is shown, and what collects it.
  struct Code: Sendable {
    var deviceCode: String
    var verifier: String
    var payload: String
    var checkCode: String
    var expires: ContinuousClock.Instant
    var interval: Duration
    var nextPoll: ContinuousClock.Instant
  }

  private static let callTimeout: Duration = .seconds(20)
  private static let longPollMilliseconds: Int32 = 25_000

  let plan: LoadPlan
  private let identity: ClientChannel
  private let channels: [ClientChannel]

  init(_ plan: LoadPlan) throws(CommandFailure) {
    self.plan = plan
    let tls: TLSClientContext?
    do throws(TLSError) {
      tls = try plan.client.tls.map { options throws(TLSError) in
        let trust = try options.authorities.map { pem throws(TLSError) in try TLSTrust(pem: pem) } ?? .system
        return try TLSClientContext(TLSClientContext.Configuration(trust: trust))
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
  }

  func close() async {
    for channel in channels + [identity] { await channel.close(grace: .seconds(1)) }
  }

  /// Errors: what kept the test from starting.
  func run(ready: (LoadLedger) -> Void) async throws(CommandFailure) -> LoadRecorder {
    do throws(RPCError) {
      for channel in channels {
        let options = CallOptions(timeout: .seconds(5))
        _ = try await HealthV1.HealthClient(channel: channel).check(HealthV1.HealthCheckRequest(), options: options)
      }
    } catch {
      throw CommandFailure(
        .unavailable,
        "cannot open \(plan.connections) connections to \(plan.client.qr): \(error.message)",
        hint: "is the service running, and does it take as many connections?"
      )
    }
    let tokens = plan.mode == .poll ? [] : try await accounts()
    var codes: [Code] = []
    if plan.mode == .poll {
      for number in 0..<plan.codes {
        do throws(RPCError) {
          codes.append(try await issue(channels[number % channels.count]))
        } catch {
          throw CommandFailure(
            .unavailable,
            "code \(number + 1) of \(plan.codes) was refused: \(error.message)",
            hint: "latchkey-qr --limits-issues-per-minute 0 takes as many as asked for"
          )
        }
      }
    }
    let ledger = LoadLedger(start: .now)
    ready(ledger)
    await withTaskGroup(of: Void.self) { group in
      for worker in 0..<plan.workers {
        // Worker k has every workers-th code to itself: no code is polled by two.
        let own = stride(from: worker, to: codes.count, by: plan.workers).map { codes[$0] }
        group.addTask { await work(worker, own, tokens, ledger) }
      }
    }
    return ledger.snapshot()
  }

  // MARK: - A worker

  private func work(_ worker: Int, _ codes: [Code], _ tokens: [String], _ ledger: LoadLedger) async {
    var codes = codes
    var turn = 0
    let channel = channels[worker % channels.count]
    let end = plan.ramp + plan.duration
    if plan.schedule == nil {
      try? await Task.sleep(for: plan.ramp * (Double(worker) / Double(plan.workers)))
    }
    while !Task.isCancelled {
      var intended: Duration
      let number = ledger.takeNumber()
      if let schedule = plan.schedule {
        intended = schedule.due(number)
        guard intended < end else { return }
        try? await Task.sleep(until: ledger.start + intended)
      } else {
        intended = ledger.now
      }
      if plan.mode == .poll {
        guard !codes.isEmpty else { return }
        let index = turn % codes.count
        turn += 1
        if plan.keepsInterval, plan.schedule == nil {
          let due = codes[index].nextPoll
          guard due < ledger.start + end else { return }
          try? await Task.sleep(until: due)
          intended = ledger.now
        }
        guard intended < end else { return }
        await poll(&codes[index], channel, intended, ledger)
      } else {
        guard intended < end else { return }
        await flow(tokens[number % tokens.count], channel, intended, ledger)
      }
    }
  }

  private func poll(_ code: inout Code, _ channel: ClientChannel, _ intended: Duration, _ ledger: LoadLedger) async {
    do throws(RPCError) {
      // A code near its end makes way for a fresh one, before it is polled.
      if code.expires < .now + .seconds(1) { code = try await issue(channel) }
      code.nextPoll = .now + code.interval
      let request = QRV1.PollSessionRequest(deviceCode: code.deviceCode)
      let answer = try await QRV1.QrSessionServiceClient(channel: channel)
        .pollSession(request, options: CallOptions(timeout: Self.callTimeout))
      code.interval = .seconds(answer.interval)
      if answer.state != .pending { ledger.note { $0.violated("a code nobody scanned is \(answer.state)") } }
      finish(["poll": ledger.now - intended], intended, ledger)
    } catch {
      if let wait = error.details.retryAfter { code.nextPoll = .now + wait }
      fail("poll", error, ledger)
    }
  }

  /// Issue, scan, confirm, redeem; and then the same redeeming poll again, which must bring the same session.
  private func flow(_ token: String, _ channel: ClientChannel, _ intended: Duration, _ ledger: LoadLedger) async {
    let service = QRV1.QrSessionServiceClient(channel: channel)
    let phone = CallOptions(metadata: ["authorization": "Bearer \(token)"], timeout: Self.callTimeout)
    var step = "issue"
    var times: [String: Duration] = [:]
    var isConfirmed = false
    var shown: Code?
    do throws(RPCError) {
      var begun = ContinuousClock.now
      let code = try await issue(channel)
      shown = code
      times[step] = begun.duration(to: .now)

      step = "scan"
      begun = .now
      let scan = try await service.scanSession(
        QRV1.ScanSessionRequest(code: .qrPayload(code.payload)), options: phone)
      times[step] = begun.duration(to: .now)

      step = "confirm"
      begun = .now
      async let waiting = plan.mode == .full ? nil : Self.result(service, plan.mode, code)
      let check = scan.needsCheckCode ? code.checkCode : ""
      _ = try await service.confirmSession(
        QRV1.ConfirmSessionRequest(confirmTicket: scan.confirmTicket, checkCode: check), options: phone)
      isConfirmed = true
      times[step] = begun.duration(to: .now)

      step = "redeem"
      if plan.mode == .full { begun = .now }
      // A waiting screen is told from the confirmation on: its time includes the confirmation's.
      let sid =
        if let waited = await waiting { try waited.get() } else { try await Self.redeem(service, code) }
      times[step] = begun.duration(to: .now)
      times["flow"] = ledger.now - intended
      ledger.note { $0.redeemed(sid) }
      finish(times, intended, ledger)

      step = "repeat"
      let again = try await Self.redeem(service, code)
      if again != sid { ledger.note { $0.violated("one sign-in was handed over as \(sid) and as \(again)") } }
    } catch {
      fail(step, error, ledger)
      guard isConfirmed, step == "redeem" else { return }
      // The answer may be lost, the sign-in must not be: it is asked for again for as long as the service keeps it.
      for pause in [100, 500, 1000, 2000] {
        try? await Task.sleep(for: .milliseconds(pause))
        guard let code = shown, let sid = try? await Self.redeem(service, code) else { continue }
        return ledger.note { $0.redeemed(sid) }
      }
      ledger.note { $0.violated("a confirmed sign-in was lost: \(error.code.name) \(error.message)") }
    }
  }

  // MARK: - Steps

  private func issue(_ channel: ClientChannel) async throws(RPCError) -> Code {
    let verifier = Base64URL.encode(SecureRandom.bytes(32))
    let request = QRV1.IssueSessionRequest(
      clientID: plan.client.clientID,
      purpose: .login,
      codeChallenge: Base64URL.encode(SHA256Hash.hash(Array(verifier.utf8))),
      codeChallengeMethod: "S256",
      initiator: QRV1.Initiator(label: "load test", platform: "load", app: "latchkey")
    )
    let answer = try await QRV1.QrSessionServiceClient(channel: channel)
      .issueSession(request, options: CallOptions(timeout: Self.callTimeout))
    return Code(
      deviceCode: answer.deviceCode,
      verifier: verifier,
      payload: answer.qrPayload,
      checkCode: answer.checkCode,
      expires: .now + .seconds(answer.expiresIn),
      interval: .seconds(answer.interval),
      nextPoll: .now
    )
  }

  /// The session that the confirmed code was handed over as. A confirmed code is never throttled.
  private static func redeem(_ service: QRV1.QrSessionServiceClient, _ code: Code) async throws(RPCError) -> String {
    let request = QRV1.PollSessionRequest(deviceCode: code.deviceCode, codeVerifier: code.verifier)
    let answer = try await service.pollSession(request, options: CallOptions(timeout: callTimeout))
    guard let tokens = answer.tokens else { throw noTokens(answer.state) }
    return tokens.sid
  }

  /// Waits for the confirmation as the mode says.
  private static func result(
    _ service: QRV1.QrSessionServiceClient,
    _ mode: LoadPlan.Mode,
    _ code: Code
  ) async -> Result<String, RPCError> {
    let options = CallOptions(timeout: .seconds(60))
    do throws(RPCError) {
      guard mode == .watch else {
        // Version 2 is the scan: the answer waits for what comes after it.
        let request = QRV1.PollSessionRequest(
          deviceCode: code.deviceCode, codeVerifier: code.verifier, lastVersion: 2, waitMs: longPollMilliseconds)
        let answer = try await service.pollSession(request, options: options)
        guard let tokens = answer.tokens else { throw noTokens(answer.state) }
        return .success(tokens.sid)
      }
      let request = QRV1.WatchSessionRequest(deviceCode: code.deviceCode, codeVerifier: code.verifier)
      let sid = try await service.watchSession(request, options: options) { answers throws(RPCError) -> String in
        for try await answer in answers {
          if let tokens = answer.tokens { return tokens.sid }
        }
        throw RPCError(.dataLoss, "the watch ended without tokens")
      }
      return .success(sid)
    } catch {
      return .failure(error)
    }
  }

  private static func noTokens(_ state: QRV1.SessionState) -> RPCError {
    RPCError(.dataLoss, "no tokens for a confirmed code: \(state)")
  }

  /// Access tokens of fresh accounts, the phones of the test.
  private func accounts() async throws(CommandFailure) -> [String] {
    let service = IdentityV1.AuthServiceClient(channel: identity)
    var tokens: [String] = []
    for number in 0..<plan.accounts {
      let name = "load-\(Base64URL.encode(SecureRandom.bytes(12)))@load.example"
      let password = Base64URL.encode(SecureRandom.bytes(18))
      let request = IdentityV1.RegisterRequest(
        clientID: plan.client.clientID,
        password: IdentityV1.PasswordCredential(identifier: name.lowercased(), password: password)
      )
      do throws(RPCError) {
        let answer = try await service.register(request, options: CallOptions(timeout: .seconds(30)))
        tokens.append(answer.tokens?.accessToken ?? "")
      } catch {
        throw CommandFailure(
          .unavailable, "account \(number + 1) of \(plan.accounts) cannot be registered: \(error.message)")
      }
    }
    return tokens
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
