import ServiceRuntime
import Testing

@testable import IdentityService

@Suite("Identity configuration names")
struct IdentityConfigurationNamesTests {
  @Test("the other services know every key of this one, so that one environment can serve all")
  func names() {
    let declared = IdentityProcess.description.keys.map(\.environmentName)
    #expect(InstallationKeys.variables(of: .identity).sorted() == declared.sorted())
  }
}
