/// One handler's part in the server's budget: taken when it first waits, given back when it has returned.
struct CallShare {
  private var isTaken = false

  mutating func take(of budget: ServerBudget) {
    guard !isTaken else { return }
    isTaken = true
    budget.callWaits()
  }

  mutating func giveBack(to budget: ServerBudget) {
    guard isTaken else { return }
    isTaken = false
    budget.callReturned()
  }
}
