import Testing

@testable import TransportServer

@Suite("The order of an answer over HTTP/1.1") struct PageExchangeTests {
  private typealias Event = @Sendable (inout PageExchange) -> Bool

  private static let head: Event = { $0.receivedHead() }
  private static let answer: Event = { $0.sendHead() }
  private static let end: Event = { $0.sendEnd(isLast: false) }
  private static let lastEnd: Event = { $0.sendEnd(isLast: true) }
  private static let close: Event = { $0.end() }

  @Test("In each state just what is in order may be: a body and an end behind a head, and nothing when it is over")
  func order() {
    let states: [(way: [Event], allowed: [Bool], body: Bool)] = [
      ([], [true, false, false, false, true], false),
      ([Self.head], [false, true, false, false, true], false),
      ([Self.head, Self.answer], [false, false, true, true, true], true),
      ([Self.head, Self.answer, Self.end], [true, false, false, false, true], false),
      ([Self.head, Self.answer, Self.lastEnd], [false, false, false, false, false], false),
      ([Self.close], [false, false, false, false, false], false),
      ([Self.head, Self.answer, Self.close], [false, false, false, false, false], false),
    ]
    for state in states {
      var exchange = PageExchange()
      for event in state.way { #expect(event(&exchange)) }
      #expect(exchange.maySendBody == state.body)
      let events = [Self.head, Self.answer, Self.end, Self.lastEnd, Self.close]
      for (event, isAllowed) in zip(events, state.allowed) {
        var next = exchange
        #expect(event(&next) == isAllowed)
        // What may not be changes nothing.
        #expect(
          isAllowed || (next.isIdle, next.isOver, next.maySendBody) == (exchange.isIdle, exchange.isOver, state.body))
      }
    }
  }
}
