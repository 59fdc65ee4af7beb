import LatchkeyProtos
import Testing

@testable import LatchkeyClient

@Suite("Guides on the device")
struct GuideTests {
  private func guide(cursor: Int32 = 0, status: IdentityV1.GuideStatus = .active) -> GuideView {
    let steps = [("search", "home", "bar"), ("cart", "home", "tab"), ("pay", "cart", "button"), ("end", "cart", "")]
    return GuideView(
      id: "tour", version: 1,
      steps: steps.map { IdentityV1.GuideStep(stepID: $0.0, page: $0.1, target: $0.2, messageKey: "m") },
      progress: IdentityV1.GuideProgress(status: status, cursor: cursor, revision: 4))
  }

  @Test("U2: a page that appears shows its step, next goes on, and the end finishes the guide")
  func follows() {
    let guide = guide()
    var dispatcher = GuideDispatcher(guide)
    #expect(dispatcher.pageDidAppear("cart") == [])
    #expect(dispatcher.pageDidAppear("home") == [.show(guide.steps[0]), .report(step: "search", .shown)])
    #expect(dispatcher.pageDidAppear("home") == [])
    #expect(
      dispatcher.next() == [
        .hide, .report(step: "search", .done), .show(guide.steps[1]), .report(step: "cart", .shown),
      ])
    #expect(dispatcher.next() == [.hide, .report(step: "cart", .done)])
    #expect(dispatcher.pageDidAppear("cart") == [.show(guide.steps[2]), .report(step: "pay", .shown)])
    #expect(
      dispatcher.next() == [.hide, .report(step: "pay", .done), .report(step: "end", .done), .finish])
    #expect(dispatcher.isFinished && dispatcher.pageDidAppear("cart") == [] && dispatcher.next() == [])
  }

  @Test("U2: next before any page does nothing, and a step is hidden when its page goes")
  func otherPages() {
    let guide = guide(cursor: 1)
    var dispatcher = GuideDispatcher(guide)
    #expect(dispatcher.next() == [])
    #expect(dispatcher.pageDidAppear("home") == [.show(guide.steps[1]), .report(step: "cart", .shown)])
    #expect(dispatcher.pageDidAppear("settings") == [.hide])
    #expect(dispatcher.next() == [])
    #expect(dispatcher.pageDidAppear("home") == [.show(guide.steps[1]), .report(step: "cart", .shown)])
  }

  @Test("U2: a completed guide listens to nothing")
  func completed() {
    var dispatcher = GuideDispatcher(guide(cursor: -1, status: .completed))
    #expect(dispatcher.isFinished && dispatcher.pageDidAppear("home") == [] && dispatcher.next() == [])
  }

  @Test("U10: the hole is what is seen of the target, and touches go through it, or around it when reversed")
  func hole() {
    let screen = GuideGeometry.Rect(x: 0, y: 0, width: 100, height: 200)
    let target = GuideGeometry.Rect(x: 90, y: 10, width: 30, height: 20)
    let hole = GuideGeometry.hole(for: target, in: screen, margin: 5)
    #expect(hole == GuideGeometry.Rect(x: 85, y: 5, width: 15, height: 30))
    #expect(GuideGeometry.hole(for: .init(x: 120, y: 0, width: 5, height: 5), in: screen) == nil)
    guard let hole else { return }
    for isReversed in [false, true] {
      #expect(GuideGeometry.passes(touch: 85, 5, hole: hole, isReversed: isReversed) != isReversed)
      #expect(GuideGeometry.passes(touch: 100, 5, hole: hole, isReversed: isReversed) == isReversed)
      #expect(GuideGeometry.passes(touch: 20, 100, hole: hole, isReversed: isReversed) == isReversed)
    }
  }

  @Test("U10: the label goes to the largest free side, and the mask to the outermost host")
  func label() {
    let screen = GuideGeometry.Rect(x: 0, y: 0, width: 100, height: 200)
    func side(_ x: Double, _ y: Double) -> GuideGeometry.Side {
      GuideGeometry.labelSide(of: .init(x: x, y: y, width: 10, height: 10), in: screen).side
    }
    #expect(side(45, 10) == .below && side(45, 180) == .above)
    let wide = GuideGeometry.Rect(x: 0, y: 0, width: 300, height: 50)
    #expect(GuideGeometry.labelSide(of: .init(x: 10, y: 0, width: 10, height: 50), in: wide).side == .after)
    #expect(GuideGeometry.labelSide(of: .init(x: 280, y: 0, width: 10, height: 50), in: wide).side == .before)
    let whole = GuideGeometry.labelSide(of: screen, in: screen)
    #expect(whole.side == .above && whole.room.height == 0)
    #expect(GuideGeometry.host(among: [.view, .tab, .navigation]) == .tab)
    #expect(GuideGeometry.host(among: [.view, .navigation]) == .navigation)
    #expect(GuideGeometry.host(among: []) == nil)
  }
}
