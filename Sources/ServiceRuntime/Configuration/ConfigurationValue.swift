/// A value as a source writes it, before its key gives it a meaning.
package enum ConfigurationValue: Sendable, Equatable {
  case string(String)
  case integer(Int)
  case boolean(Bool)
  case strings([String])
}
