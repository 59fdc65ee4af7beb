import LatchkeyModel

/// Why a store could not do what it was asked.
package struct StorageError: Error, Sendable, Equatable, CustomStringConvertible {
  /// What kind of thing went wrong, and with it whose fault it was.
  package enum Fault: Sendable, Equatable {
    /// The row breaks a rule of the schema. The caller's to handle.
    case constraint(Constraint)
    /// The caller went away before the work began, or while it was reading.
    case cancelled
    /// More work waits than the store takes on.
    case overloaded
    /// What the operation had found changed before it held it. An engine runs it again, from the beginning.
    case superseded
    /// The store was closed.
    case closed
    /// The file cannot be reached, read or written now, or another process holds it.
    case unavailable
    /// The change may have been made or not: the connection ended, or the wait for a standby did, while it was committed.
    /// Look before it is tried again.
    case outcomeUnknown
    /// The disk, or the room the file may take, is used up.
    case full
    /// What is in the file is not what was written.
    case corrupt
    /// Only a newer release may touch it: what this one needs is there no more, or in another shape. `found` is what a release
    /// has to know.
    case newerSchema(found: Int, known: Int)
    /// Somebody has to bring it forward first, up to `step`.
    case olderSchema(step: Int)
    /// Instances of an older release use what was to be taken away.
    case oldInstances
    /// Whoever asks has no right to it in the database.
    case forbidden
    /// The database belongs to another cell than the service: whoever goes on would mix up what is whose.
    case otherCell(found: Cell, expected: Cell)
    /// Our own SQL or our own use of the engine is wrong.
    case misuse
  }

  /// Which rule of the schema a row breaks.
  package enum Constraint: Sendable, Equatable {
    /// A unique index or a primary key.
    case unique
    case foreignKey
    case check
    case notNull
    case other
  }

  /// What was being done, such as `issueGuest(_:)`.
  package let operation: String
  package let fault: Fault
  /// The engine's own words, for the log. Holds no stored values.
  package let detail: String

  package init(_ fault: Fault, operation: String, detail: String = "") {
    self.fault = fault
    self.operation = operation
    self.detail = detail
  }

  /// Whether the same operation may succeed when it is tried again later.
  package var isRetryable: Bool {
    switch fault {
    case .overloaded, .superseded, .unavailable, .full, .closed: true
    case .constraint, .cancelled, .outcomeUnknown, .corrupt, .newerSchema, .olderSchema, .oldInstances, .forbidden,
      .otherCell, .misuse:
      false
    }
  }

  package var isUniqueViolation: Bool { fault == .constraint(.unique) }

  package var description: String {
    let reason =
      switch fault {
      case .constraint(let constraint): "the row breaks a rule of the schema (\(constraint))"
      case .cancelled: "the caller went away"
      case .overloaded: "too much work is waiting"
      case .superseded: "others were faster again and again"
      case .closed: "the store is closed"
      case .unavailable: "the storage cannot be used now"
      case .outcomeUnknown: "nobody knows whether the change was made"
      case .full: "the disk is full"
      case .corrupt: "the file is damaged"
      case .newerSchema(let found, let known):
        "it takes a release that knows version \(found) of the schema, and this one knows \(known): use a newer one"
      case .olderSchema(let step): "the tables are not brought forward to step \(step) yet"
      case .oldInstances: "instances of an older release live"
      case .forbidden: "the database's user has no right to that"
      case .otherCell(let found, let expected):
        "the database belongs to cell \(found), and this service to cell \(expected): see cell in the configuration"
      case .misuse: "the engine was used wrongly"
      }
    return detail.isEmpty ? "\(operation): \(reason)" : "\(operation): \(reason): \(detail)"
  }
}
