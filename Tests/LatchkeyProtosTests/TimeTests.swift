import LatchkeyProtos
import Testing

@Suite("Times and durations")
struct TimeTests {
  @Test(
    "milliseconds become seconds and forward nanoseconds, also before 1970",
    arguments: [
      (0, 0, 0), (1, 0, 1_000_000), (1_700_000_000_123, 1_700_000_000, 123_000_000), (-1, -1, 999_000_000),
      (-1000, -1, 0), (-1001, -2, 999_000_000),
    ] as [(Int64, Int64, Int32)])
  func milliseconds(milliseconds: Int64, seconds: Int64, nanos: Int32) {
    let timestamp = GoogleProtobuf.Timestamp(millisecondsSinceEpoch: milliseconds)
    #expect(timestamp == GoogleProtobuf.Timestamp(seconds: seconds, nanos: nanos))
    #expect(timestamp.millisecondsSinceEpoch == milliseconds)
  }

  @Test("a timestamp outside the years 1 to 9999 or with wild nanoseconds is no time")
  func wildTimestamps() {
    #expect(GoogleProtobuf.Timestamp(seconds: .max).millisecondsSinceEpoch == nil)
    #expect(GoogleProtobuf.Timestamp(seconds: .min).millisecondsSinceEpoch == nil)
    #expect(GoogleProtobuf.Timestamp(seconds: 0, nanos: -1).millisecondsSinceEpoch == nil)
    #expect(GoogleProtobuf.Timestamp(seconds: 0, nanos: 1_000_000_000).millisecondsSinceEpoch == nil)
    #expect(GoogleProtobuf.Timestamp(millisecondsSinceEpoch: .max).millisecondsSinceEpoch == nil)
    #expect(GoogleProtobuf.Timestamp(millisecondsSinceEpoch: .min).millisecondsSinceEpoch == nil)
  }

  @Test(
    "durations survive the way out and in",
    arguments: [.zero, .milliseconds(1500), .milliseconds(-1500), .nanoseconds(1), .seconds(315_576_000_000)]
      as [Duration])
  func durations(duration: Duration) {
    #expect(GoogleProtobuf.Duration(duration).duration == duration)
  }

  @Test("a duration that is too long or of two minds about its sign is none")
  func wildDurations() {
    #expect(GoogleProtobuf.Duration(seconds: 1, nanos: -1).duration == nil)
    #expect(GoogleProtobuf.Duration(seconds: .max).duration == nil)
    #expect(GoogleProtobuf.Duration(seconds: 0, nanos: .min).duration == nil)
    let longest: Duration = .seconds(315_576_000_000) + .nanoseconds(999_999_999)
    #expect(GoogleProtobuf.Duration(.seconds(Int64.max)).duration == longest)
  }
}
