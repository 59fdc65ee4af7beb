import ServiceRuntime
import Testing

@testable import MigrationService

@Suite("Migrator configuration names")
struct MigratorConfigurationNamesTests {
  @Test("the other services know every key of this one, so that one environment can serve all")
  func names() {
    let declared = MigratorProcess.description.keys.map(\.name)
    #expect(InstallationKeys.names(of: .migrator).sorted() == declared.sorted())
  }
}
