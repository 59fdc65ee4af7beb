import LatchkeyModel
import Synchronization
import TestSupport
import Testing

@testable import LatchkeyClient

/// A camera that does what it is told and remembers it.
private final class ScriptedCamera: ScannerControl {
  struct State {
    var permission: CameraPermission
    var answer = CameraPermission.authorized
    var calls: [String] = []
    var isStarting = false
  }

  let state: Mutex<State>

  init(_ permission: CameraPermission) { state = Mutex(State(permission: permission)) }

  var calls: [String] { state.withLock { $0.calls } }

  func permission() async -> CameraPermission { state.withLock { $0.permission } }

  func askForPermission() async -> CameraPermission {
    state.withLock { state in
      state.calls.append("ask")
      state.permission = state.answer
      return state.answer
    }
  }

  func start() async {
    state.withLock { $0.isStarting = true }
    // Long enough for a stop that does not wait its turn to overtake.
    try? await Task.sleep(for: .milliseconds(20))
    state.withLock { $0.calls.append("start") }
  }

  func stop() async { state.withLock { $0.calls.append("stop") } }
}

@Suite struct ScannerTests {
  private static let ours = "https://login.example/q/1/AAAAAAAAAAAAAAAAAAAAAA"
  private static let other = "https://login.example/q/1/BBBBBBBBBBBBBBBBBBBBBA"

  private func router() throws -> ScanRouter {
    try ScanRouter(qrBase: "https://login.example", pages: ["https://help.example/app", "http://127.0.0.1:8080"])
  }

  private func page(
    _ permission: CameraPermission = .authorized,
    clock: ManualClock = ManualClock()
  ) throws -> (ScannerPage, ScriptedCamera) {
    let camera = ScriptedCamera(permission)
    return (ScannerPage(control: camera, router: try router(), clock: clock), camera)
  }

  @Test(
    "Q4: an allowed address opens its page, a sign-in code its confirm page, and anything else nothing",
    arguments: [
      (ours, ScanRoute.signIn(ours)),
      ("https://help.example/app", .page("https://help.example/app")),
      ("https://help.example/app/codes?x=1#y", .page("https://help.example/app/codes?x=1#y")),
      ("http://127.0.0.1:8080/a", .page("http://127.0.0.1:8080/a")),
      ("https://help.example/apple", .unknown),
      ("https://help.example/", .unknown),
      ("https://help.example.evil.test/app", .unknown),
      ("https://help.example@evil.test/app", .unknown),
      ("https://evil.test/https://help.example/app", .unknown),
      ("http://help.example/app", .unknown),
      ("HTTPS://help.example/app", .unknown),
      ("https://help.example/app/../../evil", .unknown),
      ("https://help.example/app/%2e%2e/evil", .unknown),
      ("https://help.example/app\\@evil.test", .unknown),
      ("http://127.0.0.1:80801/a", .unknown),
      ("https://login.example/q/1/short", .unknown),
      ("javascript:alert(1)", .unknown),
      ("", .unknown),
    ]
  )
  func routes(content: String, route: ScanRoute) throws {
    #expect(try router().route(content) == route)
  }

  @Test(
    "Q4: an allowed address that could not be compared byte for byte is refused",
    arguments: ["help.example", "https://help.example/", "https://Help.example", "https://*.example"])
  func unusable(address: String) {
    #expect(throws: ScanRouter.UnusableAddress(address: address)) {
      try ScanRouter(qrBase: "https://login.example", pages: [address])
    }
  }

  @Test("Q8: of several codes in one frame only the first counts")
  func firstOnly() async throws {
    let (page, _) = try page()
    await page.appear()
    #expect(await page.read(["https://evil.test", Self.ours]) == .unknown)
    #expect(await page.read([Self.other, Self.ours]) == .signIn(Self.other))
    #expect(await page.read([Self.ours]) == nil)
  }

  @Test("Q6: a code that stays in front of the camera leads to one action")
  func debounce() async throws {
    let clock = ManualClock()
    let (page, _) = try page(clock: clock)
    await page.appear()
    #expect(await page.read(["https://evil.test"]) == .unknown)
    for _ in 0..<30 { #expect(await page.read(["https://evil.test"]) == nil) }
    #expect(await page.read([]) == nil)
    clock.advance(by: .seconds(3))
    #expect(await page.read(["https://evil.test"]) == .unknown)
  }

  @Test("Q4, Q9: a code that leads somewhere stops the camera; the page that comes back starts it again")
  func stopsAtCode() async throws {
    let (page, camera) = try page()
    await page.appear()
    #expect(await page.read([Self.ours]) == .signIn(Self.ours))
    #expect(camera.calls == ["start", "stop"])
    #expect(await page.state == .idle)
    await page.appear()
    #expect(camera.calls == ["start", "stop", "start"])
  }

  @Test("Q9: the camera runs while the page is there, and starts and stops never overtake each other")
  func lifecycle() async throws {
    let (page, camera) = try page()
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await page.appear() }
      while !camera.state.withLock({ $0.isStarting }) { await Task.yield() }
      group.addTask { await page.disappear() }
    }
    #expect(camera.calls == ["start", "stop"])
    #expect(await page.read([Self.ours]) == nil)
    await page.disappear()
    #expect(camera.calls == ["start", "stop"])
  }

  @Test(
    "Q10: each permission leads to its page",
    arguments: [
      (CameraPermission.authorized, PermissionModel.State.scanning, ["start"]),
      (.notDetermined, .scanning, ["ask", "start"]),
      (.denied, .guidingToSettings, []),
      (.restricted, .explaining, []),
    ])
  func permissions(permission: CameraPermission, state: PermissionModel.State, calls: [String]) async throws {
    let (page, camera) = try page(permission)
    await page.appear()
    #expect(await page.state == state)
    #expect(camera.calls == calls)
  }

  @Test("Q10: who comes back from the settings is believed, either way")
  func settings() async throws {
    let (page, camera) = try page(.denied)
    await page.appear()
    camera.state.withLock { $0.permission = .authorized }
    await page.appear()
    #expect(await page.state == .scanning)
    camera.state.withLock { $0.permission = .denied }
    await page.appear()
    #expect(await page.state == .guidingToSettings)
    #expect(camera.calls == ["start", "stop"])
  }

  @Test("Q10: whatever happens in whatever order, nobody is asked twice at a time and no camera runs unseen")
  func everyOrder() {
    var generator = SystemRandomNumberGenerator()
    let seed = UInt64.random(in: 0...UInt64.max, using: &generator)
    var word = seed
    var model = PermissionModel()
    var isRunning = false
    for step in 0..<10_000 {
      word = word &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      let permission = CameraPermission.allCases[Int(word >> 33) % CameraPermission.allCases.count]
      let before = model.state
      let action =
        switch Int(word >> 40) % 3 {
        case 0: model.appeared(permission)
        case 1: model.answered(permission)
        default: model.disappeared()
        }
      switch action {
      case .startScanner:
        #expect(!isRunning, "seed \(seed), step \(step)")
        isRunning = true
      case .stopScanner:
        #expect(isRunning, "seed \(seed), step \(step)")
        isRunning = false
      case .ask: #expect(before != .asking && model.state == .asking, "seed \(seed), step \(step)")
      case .none: break
      }
      #expect(isRunning == (model.state == .scanning), "seed \(seed), step \(step)")
    }
  }
}
