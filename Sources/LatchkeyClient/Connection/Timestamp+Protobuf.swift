import LatchkeyModel
import LatchkeyProtos

extension Timestamp {
  /// Nil for what `google.protobuf.Timestamp` does not allow.
  init?(_ proto: GoogleProtobuf.Timestamp) {
    guard let milliseconds = proto.millisecondsSinceEpoch else { return nil }
    self.init(millisecondsSinceEpoch: milliseconds)
  }
}
