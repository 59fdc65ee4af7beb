/// One handler's part in the server's budget and its source's: taken when it first waits, given back when it has returned.
struct CallShare {
  private(set) var account: SourceAccount?

  mutating func take(of budget: ServerBudget, for account: SourceAccount) {
    guard self.account == nil else { return }
    self.account = account
    budget.callWaits(account)
  }

  mutating func giveBack(to budget: ServerBudget) {
    guard let account else { return }
    self.account = nil
    budget.callReturned(account)
  }
}
