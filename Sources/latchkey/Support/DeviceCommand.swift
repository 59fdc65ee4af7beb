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
      await device.askForProofs { ProofPrompt.ask($0) }
      do {
        try await run(device, settings, output)
      } catch {
        let isAccount = if case .user? = try? await device.authState() { true } else { false }
        await device.close()
        if case .signedOut? = error as? ClientError, isAccount { throw CommandFailure.noGuest }
        throw error
      }
      await device.close()
    } catch let failure as CommandFailure {
      output.failure(failure.repeating(options.repeated))
      throw ExitCode(failure.status.rawValue)
    } catch let error as ClientError {
      let failure = CommandFailure(error).repeating(options.repeated)
      output.failure(failure)
      throw ExitCode(failure.status.rawValue)
    }
  }
}
