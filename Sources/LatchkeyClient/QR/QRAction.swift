/// One thing that a person is asked to agree to, such as a payment. Shown on the phone word for word.
public struct QRAction: Sendable, Equatable {
  /// One line of at most 120 characters.
  public var text: String
  /// Such as `129.90`; empty when no money is meant.
  public var amount: String
  /// ISO 4217, such as `EUR`; goes with the amount.
  public var currency: String
  /// The app's own name for it, such as an order number: at most 64 visible ASCII characters.
  public var reference: String

  public init(text: String, amount: String = "", currency: String = "", reference: String = "") {
    self.text = text
    self.amount = amount
    self.currency = currency
    self.reference = reference
  }
}
