/// How many watches may be open at once.
package struct WatchBounds: Sendable {
  /// Of all subjects.
  package let total: Int
  /// Of one subject and, of these, of one of its devices and of one session.
  package let perSubject: Int
  package let perDevice: Int
  package let perSession: Int

  package init(total: Int, perSubject: Int, perDevice: Int, perSession: Int) {
    precondition(
      0 < perSession && perSession <= perDevice && perDevice <= perSubject && perSubject <= total,
      "a session's are of a device's, these of a subject's, and these of all")
    self.total = total
    self.perSubject = perSubject
    self.perDevice = perDevice
    self.perSession = perSession
  }
}
