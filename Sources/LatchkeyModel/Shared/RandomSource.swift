/// Where random bytes come from. Passed in wherever randomness matters, so that a test needs no luck.
package struct RandomSource: Sendable {
  private let generate: @Sendable (Int) -> [UInt8]

  /// `generate` answers with as many bytes as it is asked for; outside tests it is the machine's secure source.
  package init(_ generate: @escaping @Sendable (Int) -> [UInt8]) {
    self.generate = generate
  }

  package func bytes(_ count: Int) -> [UInt8] {
    generate(count)
  }
}
