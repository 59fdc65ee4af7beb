import LatchkeyModel
import LatchkeyProtos

extension GoogleProtobuf.Timestamp {
  init(_ time: LatchkeyModel.Timestamp) {
    let seconds = time.secondsSinceEpoch
    let nanoseconds = (time.millisecondsSinceEpoch - seconds * 1000) * 1_000_000
    self.init(seconds: seconds, nanos: Int32(nanoseconds))
  }
}
