import GRPC
import Testing

@Suite("Where a call on the server stands: states by events")
struct CallStateTests {
  private enum Stand: CaseIterable {
    case receiving, opened, hasRequest, running, parked, over, overButRunning

    var state: CallState {
      var state = CallState()
      if self == .over { return state }
      state.begin(streams: self == .opened)
      switch self {
      case .receiving, .opened, .over: break
      case .hasRequest: _ = state.received()
      case .running: state.run()
      case .parked:
        state.run()
        _ = state.returned(parks: true)
      case .overButRunning:
        state.run()
        _ = state.end()
      }
      return state
    }
  }

  @Test("A message is the request, the next one of a stream, one too many, or nobody's")
  func messages() {
    let table: [Stand: (CallState.MessageAction, CallState.Phase)] = [
      .receiving: (.keep, .receiving(hasRequest: true)),
      .opened: (.deliver, .opened),
      .hasRequest: (.fail(.notOneMessage), .receiving(hasRequest: true)),
      .running: (.deliver, .running),
      .parked: (.ignore, .parked),
      .over: (.ignore, .over),
      .overButRunning: (.ignore, .over),
    ]
    for stand in Stand.allCases {
      var state = stand.state
      let action = state.received()
      #expect(action == table[stand]?.0 && state.phase == table[stand]?.1, "\(stand)")
    }
  }

  @Test("The request's end runs the handler, ends its stream, or shows what is missing")
  func ends() {
    let table: [Stand: (whole: CallState.EndAction, cut: CallState.EndAction)] = [
      .receiving: (.fail(.notOneMessage), .fail(.endsWithinMessage)),
      .opened: (.finishMessages, .fail(.endsWithinMessage)),
      .hasRequest: (.run, .fail(.endsWithinMessage)),
      .running: (.finishMessages, .fail(.endsWithinMessage)),
      .parked: (.ignore, .ignore),
      .over: (.ignore, .ignore),
      .overButRunning: (.ignore, .ignore),
    ]
    for stand in Stand.allCases {
      #expect(stand.state.ended(isBetweenMessages: true) == table[stand]?.whole, "\(stand)")
      #expect(stand.state.ended(isBetweenMessages: false) == table[stand]?.cut, "\(stand)")
    }
  }

  @Test("A handler that returns answers or parks a call that is on, and neither one that is over")
  func returns() {
    for stand in Stand.allCases {
      for parks in [false, true] {
        var state = stand.state
        let action = state.returned(parks: parks)
        #expect(!state.isHandlerRunning)
        if stand == .running {
          #expect(action == (parks ? .park : .answer))
          #expect(state.phase == (parks ? .parked : .running))
        } else {
          #expect(action == .ignore && state.phase == stand.state.phase, "\(stand)")
        }
      }
    }
  }

  @Test("Only a parked call is woken, and once")
  func wakes() {
    for stand in Stand.allCases {
      var state = stand.state
      let isWoken = state.woken()
      #expect(isWoken == (stand == .parked), "\(stand)")
      #expect(state.isHandlerRunning == (stand == .parked || stand.state.isHandlerRunning))
      let isWokenAgain = state.woken()
      #expect(!isWokenAgain)
    }
  }

  @Test("A call ends once, from anywhere, and its handler may run on")
  func over() {
    for stand in Stand.allCases {
      var state = stand.state
      let wasRunning = state.isHandlerRunning
      let isFirst = state.end()
      #expect(isFirst == !stand.state.isOver, "\(stand)")
      #expect(state.isOver && !state.isTakingBytes && state.isHandlerRunning == wasRunning)
      let isSecond = state.end()
      #expect(!isSecond)
      state.begin()
      #expect(state == Stand.receiving.state)
    }
  }

  @Test("What gRPC does not allow has its status")
  func violations() {
    #expect(CallState.Violation.notOneMessage.error.code == .unimplemented)
    #expect(CallState.Violation.endsWithinMessage.error.code == .internal)
  }
}
