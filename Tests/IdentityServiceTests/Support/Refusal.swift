import GRPC
import Testing

/// Expects that a call is refused with this code and reason, and hands back the error for further looks.
@discardableResult
func expectRefusal<Value>(
  _ code: StatusCode?,
  _ reason: String? = nil,
  field: String? = nil,
  sourceLocation: SourceLocation = #_sourceLocation,
  _ call: () async throws -> Value
) async -> RPCError? {
  do {
    let value = try await call()
    Issue.record(
      "expected \(code.map { "\($0)" } ?? "a refusal") \(reason ?? ""), got \(value)", sourceLocation: sourceLocation)
  } catch let error as RPCError {
    if let code { #expect(error.code == code, "\(error)", sourceLocation: sourceLocation) }
    if let reason { #expect(error.details.reason == reason, "\(error)", sourceLocation: sourceLocation) }
    if let field {
      #expect(error.details.fieldViolations.first?.field == field, "\(error)", sourceLocation: sourceLocation)
    }
    return error
  } catch {
    Issue.record(
      "expected \(code.map { "\($0)" } ?? "a refusal") \(reason ?? ""), got \(error)", sourceLocation: sourceLocation)
  }
  return nil
}

/// How many of the concurrent calls succeeded; the others must have been refused with this reason.
func successes(
  _ count: Int, refusedWith reason: String, _ call: @escaping @Sendable (Int) async throws -> Void
) async -> Int {
  await withTaskGroup(of: Bool.self) { group in
    for index in 0..<count {
      group.addTask {
        do {
          try await call(index)
          return true
        } catch let error as RPCError {
          #expect(error.details.reason == reason, "\(error)")
        } catch {
          Issue.record(error)
        }
        return false
      }
    }
    return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
  }
}
