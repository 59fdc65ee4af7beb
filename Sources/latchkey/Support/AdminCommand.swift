import ArgumentParser
import GRPC
import LatchkeyClient

/// A command of those who run the installation. Failures become messages and exit statuses here, once.
protocol AdminCommand: AsyncParsableCommand {
  var options: AdminOptions { get }

  func run(_ service: AdminConnection, _ output: Output) async throws
}

extension AdminCommand {
  mutating func run() async throws {
    let output = Output(json: options.device.json)
    do {
      let service = try options.connect()
      do {
        try await run(service, output)
      } catch {
        await service.channel.close(grace: .seconds(1))
        throw error
      }
      await service.channel.close(grace: .seconds(1))
    } catch let failure as CommandFailure {
      output.failure(failure.repeating(options.device.repeated))
      throw ExitCode(failure.status.rawValue)
    } catch let error as RPCError {
      let failure = CommandFailure(ClientError.call(CallFailure(error))).repeating(options.device.repeated)
      output.failure(failure)
      throw ExitCode(failure.status.rawValue)
    }
  }
}
