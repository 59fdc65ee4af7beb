import Testing
import TransportServer

@testable import QRSessionService

@Suite struct SignInPageTests {
  @Test(
    "S22: the page of a code is the same for every code, loads nothing but its style, sends nothing and can be framed by nobody"
  )
  func page() {
    for response in [SignInPage.scanned, SignInPage.typed] {
      let html = String(decoding: response.body, as: UTF8.self)
      #expect(response.status == 200)
      #expect(!html.contains("<script") && !html.contains("http:") && !html.contains("https:"))
      #expect(!html.contains("<form") && !html.contains("<a "))
      let policy = response.headers.first { $0.name == "content-security-policy" }?.value
      #expect(policy?.contains("default-src 'none'; style-src 'self'; base-uri") == true)
      #expect(policy?.contains("frame-ancestors 'none'") == true)
      #expect(response.headers.contains { $0 == ("referrer-policy", "no-referrer") })
      #expect(response.headers.contains { $0 == ("cache-control", "no-store") })
    }
  }

  @Test("The pages answer where codes point")
  func paths() {
    #expect(SignInPage.pages.map(\.path) == ["/q", "/q/", PageStyle.path])
    #expect(SignInPage.pages.map(\.method) == ["GET", "GET", "GET"])
  }
}
