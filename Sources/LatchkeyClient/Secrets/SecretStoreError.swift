/// The secret store could not do what was asked; whether the secret exists is unknown.
public struct SecretStoreError: Error, Sendable, Equatable, CustomStringConvertible {
  public enum Operation: String, Sendable {
    case read, add, save, remove
  }

  public let operation: Operation
  public let name: String
  /// Why, for a log: never holds the secret.
  public let reason: String

  public init(_ operation: Operation, _ name: String, reason: String) {
    self.operation = operation
    self.name = name
    self.reason = reason
  }

  public var description: String { "cannot \(operation.rawValue) the secret \"\(name)\": \(reason)" }
}
