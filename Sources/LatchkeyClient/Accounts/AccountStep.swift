/// Something of the app that begins anew when somebody else uses the device, such as a cache, a database or an index.
public struct AccountStep: Sendable {
  /// Names the step in the journal: unlike all others, and the same in every start of the app.
  public let name: String
  let run: @Sendable (AccountSwitch) async throws -> Void

  /// - Parameter run: may be called again for one switch when it threw or the app died in it, so it begins from anywhere.
  public init(_ name: String, run: @escaping @Sendable (AccountSwitch) async throws -> Void) {
    self.name = name
    self.run = run
  }
}
