import LatchkeyModel

extension Timestamp {
  /// The date of a mail (RFC 5322 section 3.3), in UTC.
  var rfc5322: String {
    let (date, second) = civil
    let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
    return "\(date.day) \(names[Int(date.month) - 1]) \(date.year) "
      + "\(two(second / 3600)):\(two(second / 60 % 60)):\(two(second % 60)) +0000"
  }
}
