package import GRPC
package import Storage

extension RPCError {
  /// What a client may know of a store's failure.
  package init(storage error: StorageError) {
    switch error.fault {
    case .overloaded, .superseded:
      self.init(.resourceExhausted, "too much work is waiting", reason: "OVERLOADED", retryAfter: .seconds(1))
    case .unavailable, .full, .closed:
      self.init(.unavailable, "the storage cannot be used now", retryAfter: .seconds(1))
    case .outcomeUnknown:
      self.init(.unavailable, "the storage did not say whether the change was made", retryAfter: .seconds(1))
    case .cancelled:
      self.init(.cancelled, "the call was cancelled")
    case .constraint, .corrupt, .newerSchema, .olderSchema, .oldInstances, .forbidden, .otherCell, .misuse:
      self.init(.internal, "the storage failed")
    }
  }
}
