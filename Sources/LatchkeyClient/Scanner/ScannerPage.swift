import LatchkeyModel

/// The scanner page's behaviour without its view: the camera runs while the page is there and may use it, of several
/// codes in one frame only the first counts, and one code leads to one action however long the camera looks at it.
public actor ScannerPage {
  private let control: any ScannerControl
  private let router: ScanRouter
  private let clock: any WallClock
  private var model = PermissionModel()
  private var handled: (content: String, at: Timestamp)?
  /// The call of the control that was made last: the next one waits for it, or a page that comes and goes quickly could
  /// stop the camera before it starts it.
  private var running: Task<Void, Never>?

  public init(control: any ScannerControl, router: ScanRouter) {
    self.init(control: control, router: router, clock: SystemClock())
  }

  package init(control: any ScannerControl, router: ScanRouter, clock: any WallClock) {
    self.control = control
    self.router = router
    self.clock = clock
  }

  public var state: PermissionModel.State { model.state }

  /// The page came up, or the app came back to the front with it.
  public func appear() async {
    await carryOut(model.appeared(await control.permission()))
  }

  public func disappear() async {
    handled = nil
    await carryOut(model.disappeared())
  }

  /// What the reader saw in one frame, in its order. Nil when there is nothing to do: no code, a page that is gone, or
  /// the code that was handled last and is still in front of the camera.
  ///
  /// A page to open, or a sign-in to confirm, stops the scanner; the app starts it again by ``appear()``.
  public func read(_ codes: [String]) async -> ScanRoute? {
    guard model.state == .scanning, let first = codes.first else { return nil }
    let now = clock.now()
    if let handled, handled.content == first, now - handled.at < Limits.scanRepetition, now >= handled.at { return nil }
    handled = (first, now)
    let route = router.route(first)
    if route != .unknown { await carryOut(model.disappeared()) }
    return route
  }

  private func carryOut(_ action: PermissionModel.Action) async {
    switch action {
    case .none: break
    case .startScanner: await inTurn { await $0.start() }
    case .stopScanner: await inTurn { await $0.stop() }
    case .ask: await carryOut(model.answered(await control.askForPermission()))
    }
  }

  private func inTurn(_ call: @escaping @Sendable (any ScannerControl) async -> Void) async {
    let task = Task { [running, control] in
      await running?.value
      await call(control)
    }
    running = task
    await task.value
  }
}
