/// One call's part in the server's budget and its source's: taken when it first waits, given back when it is over and its handler
/// has returned.
struct CallShare {
  private(set) var account: SourceAccount?
  private var isEssential = false

  /// - Parameter isEssential: also counts among those that are let in whatever the load.
  mutating func take(of budget: ServerBudget, for account: SourceAccount, isEssential: Bool = false) {
    guard self.account == nil else { return }
    self.account = account
    self.isEssential = isEssential
    budget.callWaits(account)
    if isEssential { account.essentialCalls.add(1, ordering: .relaxed) }
  }

  mutating func giveBack(to budget: ServerBudget) {
    guard let account else { return }
    self.account = nil
    budget.callReturned(account)
    if isEssential { account.essentialCalls.subtract(1, ordering: .relaxed) }
  }
}
