internal import LatchkeyModel

extension Duration {
  /// A wait of up to `longest`, one as likely as another: those who are told to wait at the same moment come back at
  /// different ones.
  package static func spread(upTo longest: Duration) -> Duration {
    var random = SystemRandomNumberGenerator()
    return spread(upTo: longest, using: &random)
  }

  static func spread(upTo longest: Duration, using random: inout some RandomNumberGenerator) -> Duration {
    .milliseconds(Int64.random(in: 0...longest.wholeMilliseconds, using: &random))
  }
}
