internal import LatchkeyProtos
internal import Synchronization

/// Keeps the health status in step with what the service needs: keys to verify tokens, and what it names itself.
final class ReadinessMonitor: Sendable {
  private let health: HealthService
  private let obstacles: [@Sendable () -> String?]
  private let state = Mutex(State())
  /// Whether health says so; held while it is decided and told, so that of two looks at the same time the later one is
  /// what health goes on saying.
  private let isServing = Mutex(false)

  private struct State {
    var isStarted = false
    var isDraining = false
  }

  init(health: HealthService, obstacles: [@Sendable () -> String?]) {
    self.health = health
    self.obstacles = obstacles
  }

  /// What keeps the service from being ready now; nil when it is. The health status says the same from here on.
  func look() -> String? {
    update()
    return obstacle
  }

  /// What keeps the service from being ready; nil when it is.
  var obstacle: String? {
    let (isStarted, isDraining) = state.withLock { ($0.isStarted, $0.isDraining) }
    if isDraining { return "draining" }
    if !isStarted { return "starting" }
    for obstacle in obstacles {
      if let obstacle = obstacle() { return obstacle }
    }
    return nil
  }

  var isStarted: Bool { state.withLock { $0.isStarted } }

  /// The ports are bound.
  func start() {
    state.withLock { $0.isStarted = true }
    update()
  }

  /// Not ready from here on, for good.
  func drain() {
    state.withLock { $0.isDraining = true }
    health.drain()
  }

  /// Looks again and again until cancelled.
  func run() async {
    while !Task.isCancelled {
      update()
      try? await Task.sleep(for: Limits.readinessInterval)
    }
  }

  private func update() {
    isServing.withLock { isServing in
      let isReady = obstacle == nil
      guard isServing != isReady else { return }
      isServing = isReady
      health.setAll(isReady ? .serving : .notServing)
    }
  }
}
