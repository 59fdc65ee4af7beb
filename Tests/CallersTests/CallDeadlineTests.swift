import TestSupport
import Testing

@testable import Callers

@Suite("The end of a call")
struct CallDeadlineTests {
  @Test("what outlives a call knows neither its deadline nor its cancellation, and what it throws arrives")
  func outliving() async throws {
    struct Refused: Error, Equatable {}
    let call = Task {
      await CallDeadline.$current.withValue(.now) {
        while !Task.isCancelled { await Task.yield() }
        let seen = await CallDeadline.outliving { (CallDeadline.current, Task.isCancelled) }
        #expect(seen.0 == nil && !seen.1)
        await #expect(throws: Refused()) {
          try await CallDeadline.outliving { () async throws(Refused) in throw Refused() }
        }
        #expect(CallDeadline.current != nil && Task.isCancelled)
      }
    }
    call.cancel()
    await call.value
  }
}
