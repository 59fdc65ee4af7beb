import Glibc
import Testing

@testable import TransportServer

@Suite("A date of HTTP")
struct HTTPDateTests {
  @Test(
    "is written as RFC 9110 §5.6.7 does, in any year",
    arguments: [
      (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
      (951_827_696, "Tue, 29 Feb 2000 12:34:56 GMT"), (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
    ]
  )
  func text(seconds: Int, text: String) {
    #expect(HTTPDate.text(seconds) == text)
  }

  @Test("is the present one, also when the second before was asked for many times")
  func now() {
    let first = time(nil)
    while time(nil) <= first + 1 {
      let before = time(nil)
      let written = HTTPDate.now
      let mayBe = (before...time(nil)).map { HTTPDate.text($0) }
      #expect(mayBe.contains(written))
      usleep(20_000)
    }
  }
}
