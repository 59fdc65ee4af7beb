import ServiceRuntime
import Testing

@testable import QRSessionService

@Suite("QR configuration names")
struct QRConfigurationNamesTests {
  @Test("the other services know every key of this one, so that one environment can serve all")
  func names() {
    let declared = QRProcess.description.keys.map(\.environmentName)
    #expect(InstallationKeys.variables(of: .qr).sorted() == declared.sorted())
  }
}
