import GRPC
import LatchkeyProtos
import Synchronization
import Testing

@testable import ServiceRuntime

@Suite("What health says of a service")
struct ReadinessMonitorTests {
  private func status(_ health: HealthService) async throws -> HealthService.Status {
    let context = ServerContext(
      method: HealthV1.HealthMethod.check.rpc, metadata: [:], peer: Peer(address: "192.0.2.1", port: 1))
    return try await health.check(HealthV1.HealthCheckRequest(), context: context).status
  }

  @Test("health says what the last look found, however many look at the same time")
  func looks() async throws {
    let health = HealthService(services: [])
    let obstacle = Flag()
    let monitor = ReadinessMonitor(health: health, obstacles: [{ obstacle.isUp ? "not yet" : nil }])
    monitor.start()
    for _ in 0..<500 {
      await withTaskGroup { group in
        for turn in 0..<8 {
          group.addTask {
            obstacle.raise(turn % 2 == 0)
            _ = monitor.look()
          }
        }
      }
      obstacle.raise(false)
      #expect(monitor.look() == nil)
      #expect(try await status(health) == .serving)
    }
    monitor.drain()
    #expect(monitor.look() == "draining")
    #expect(try await status(health) == .notServing)
  }

  private final class Flag: Sendable {
    private let flag = Atomic<Bool>(true)
    var isUp: Bool { flag.load(ordering: .relaxed) }
    func raise(_ isUp: Bool) { flag.store(isUp, ordering: .relaxed) }
  }
}
