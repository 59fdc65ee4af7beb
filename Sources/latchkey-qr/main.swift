import QRSessionService
import ServiceRuntime

await ServiceProcess.main(QRProcess.description) { resources in
  try await QRProcess.make(resources)
}
