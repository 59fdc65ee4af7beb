import ArgumentParser
import Glibc
import LatchkeyClient

/// A command that acts as a device. It is given the client and says its result; failures become messages and exit
/// statuses here, once.
protocol DeviceCommand: AsyncParsableCommand {
  var options: DeviceOptions { get }

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws
}

extension DeviceCommand {
  mutating func run() async throws {
    let output = Output(json: options.json)
    do {
      let settings = try options.settings()
      let device = try DeviceClient(connecting: settings.client, secrets: settings.secrets)
      do {
        try await run(device, settings, output)
      } catch {
        await device.close()
        throw error
      }
      await device.close()
    } catch let failure as CommandFailure {
      output.failure(failure)
      throw ExitCode(failure.status.rawValue)
    } catch let error as ClientError {
      let failure = CommandFailure(error)
      output.failure(failure)
      throw ExitCode(failure.status.rawValue)
    }
  }
}
