/// Who makes a call, as far as its credential proves.
package enum Caller: Sendable, Equatable {
  /// No credential that holds: only open methods get this far.
  case anonymous
  case subject(AuthenticatedSubject)
  /// Another Latchkey service.
  case service
}
