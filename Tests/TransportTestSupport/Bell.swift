package import GRPC
internal import Synchronization

/// Rings for the calls that wait for it, and counts them.
package final class Bell: Sendable {
  private struct State {
    var rings = 0
    var wakers: [ObjectIdentifier: CallWaker] = [:]
  }

  private let state = Mutex(State())

  package init() {}

  package var rings: Int { state.withLock { $0.rings } }
  package var waiting: Int { state.withLock { $0.wakers.count } }

  package func ring() {
    let wakers = state.withLock { state in
      state.rings += 1
      return Array(state.wakers.values)
    }
    for waker in wakers { waker.wake() }
  }

  fileprivate func park(_ call: Listener, _ waker: CallWaker, heard: Int) -> Bool {
    state.withLock { state in
      guard state.rings == heard else { return false }
      state.wakers[ObjectIdentifier(call)] = waker
      return true
    }
  }

  fileprivate func unpark(_ call: Listener) {
    state.withLock { $0.wakers[ObjectIdentifier(call)] = nil }
  }

  /// Says the number of each ring that it hears, up to the third.
  package final class Listener: ParkedCall {
    private let bell: Bell
    private let writer: ResponseWriter<Blob>
    private let heard: Mutex<Int>

    package init(_ bell: Bell, _ writer: ResponseWriter<Blob>) {
      self.bell = bell
      self.writer = writer
      heard = Mutex(bell.rings)
    }

    package func turn() async throws(RPCError) -> Bool {
      let rings = bell.rings
      while heard.withLock({ $0 }) < rings {
        let number = heard.withLock { heard in
          heard += 1
          return heard
        }
        try await writer.write(Blob([UInt8(number)]))
        if number == 3 { return true }
      }
      return false
    }

    package func park(_ waker: CallWaker) -> Bool { bell.park(self, waker, heard: heard.withLock { $0 }) }

    package func unpark() { bell.unpark(self) }
  }
}
