import ServiceRuntime
import Testing

@testable import MigrationService

@Suite("Migrator configuration names")
struct MigratorConfigurationNamesTests {
  @Test("the other services know every key of this one, so that one environment can serve all")
  func names() {
    let declared = MigratorProcess.description.keys.map(\.environmentName)
    #expect(InstallationKeys.variables(of: .migrator).sorted() == declared.sorted())
  }
}
