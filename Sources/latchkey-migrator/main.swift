import MigrationService
import ServiceRuntime

await ServiceProcess.main(MigratorProcess.description) { resources in
  try await MigratorProcess.make(resources)
}
