import IdentityService
import ServiceRuntime

await ServiceProcess.main(IdentityProcess.description) { resources in
  try await IdentityProcess.make(resources)
}
