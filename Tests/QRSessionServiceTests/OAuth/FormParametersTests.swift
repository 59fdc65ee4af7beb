import Testing

@testable import QRSessionService

@Suite struct FormParametersTests {
  private func parse(_ text: String) -> FormParameters? { FormParameters(Array(text.utf8)) }

  @Test("Forms decode as RFC 6749 appendix B writes them")
  func decoding() {
    let form = parse("client_id=latchkey-demo&scope=a+b%20c&empty=&plus=%2B&euro=%e2%82%AC")
    #expect(form?["client_id"] == "latchkey-demo")
    #expect(form?["scope"] == "a b c")
    #expect(form?["empty"] == nil)
    #expect(form?["plus"] == "+")
    #expect(form?["euro"] == "€")
    #expect(form?["other"] == nil)
    #expect(parse("") != nil)
  }

  @Test(
    "Broken and doubled parameters are refused",
    arguments: ["a=1&a=2", "a=%", "a=%4", "a=%GG", "a=%ff", "=1", "a=&a=", "%61=1&a=2"]
  )
  func refused(text: String) {
    #expect(parse(text) == nil)
  }

  @Test("More than a request ever has is refused")
  func bounds() {
    #expect(parse((0..<33).map { "p\($0)=1" }.joined(separator: "&")) == nil)
    #expect(parse((0..<32).map { "p\($0)=1" }.joined(separator: "&")) != nil)
    #expect(FormParameters([UInt8](repeating: UInt8(ascii: "a"), count: 8193)) == nil)
  }
}
