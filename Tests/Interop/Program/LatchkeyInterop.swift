import ArgumentParser
import GRPC
import Glibc
import InteropProtos
import LatchkeyProtos
import Logging
import ServiceRuntime
import TLS
import TransportClient
import TransportServer

/// The public gRPC interoperability cases, from either side: the server that they call, or the client that runs them.
@main
struct LatchkeyInterop: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "latchkey-interop",
    abstract: "Serves the gRPC interoperability cases on loopback, or runs them against a server.",
    discussion: """
      As a server it prints its port in the first line of output, and serves until its input ends.
      As a client it prints one line a case and then "N passed, N failed"; exit status 1 when one failed.
      """
  )

  @Argument(help: "The port to serve on; 0 takes a free one.")
  var port = 0

  @Option(help: ArgumentHelp("Run the cases against this server instead.", valueName: "host:port"))
  var client: String?

  @Option(name: .customLong("case"), help: "Only this case, as a client.")
  var only: String?

  @Option(help: "PEM file of the authority that certifies the server, which then speaks TLS, as a client.")
  var authority: String?

  @Option(help: "PEM file of the chain to serve TLS with.")
  var certificate: String?

  @Option(help: "PEM file of its private key.")
  var key: String?

  func validate() throws {
    guard (certificate == nil) == (key == nil) else {
      throw ValidationError("--certificate and --key belong together")
    }
    guard client == nil || certificate == nil else {
      throw ValidationError("--certificate is for serving; a client has --authority")
    }
    guard client != nil || (authority == nil && only == nil) else {
      throw ValidationError("--authority and --case are for a --client")
    }
    guard only == nil || InteropCase.all.contains(where: { $0.name == only }) else {
      throw ValidationError("--case is one of \(InteropCase.all.map(\.name).joined(separator: ", "))")
    }
  }

  func run() async throws {
    if let client { try await runCases(client) } else { try await serve() }
  }

  private func serve() async throws {
    let health = HealthService(services: ["grpc.testing.TestService"], initial: .serving)
    let routes = GRPCTesting.testServiceRoutes(TestService()).map { route in
      // What stock gRPC servers take: large_unary sends 271,828 bytes.
      route.limited(messageBytes: 4 * 1024 * 1024)
    }
    let served = routes + HealthV1.healthRoutes(health)
    var configuration = RPCServer.Configuration(host: "127.0.0.1", port: port)
    if let certificate, let key {
      let identity = try TLSIdentity(certificateChain: bytes(of: certificate), privateKey: bytes(of: key))
      configuration.tls = try TLSServerContext(TLSServerContext.Configuration(identity: identity))
    }
    let server = RPCServer(
      configuration: configuration,
      routes: served
        + ReflectionRoutes.describing(served, files: LatchkeyDescriptors.files + InteropDescriptors.files),
      statusDetailsEncoder: StatusDetails.encode,
      logger: Logger(label: "latchkey-interop")
    )
    let address = try await server.start()
    print(address.port ?? port)
    fflush(nil)
    while readLine() != nil {}
    health.drain()
    await server.shutDown()
  }

  private func runCases(_ target: String) async throws {
    var tls: TLSClientContext?
    if let authority {
      tls = try TLSClientContext(TLSClientContext.Configuration(trust: TLSTrust(pem: bytes(of: authority))))
    }
    var failed = 0
    let cases = InteropCase.all.filter { only == nil || $0.name == only }
    for one in cases {
      // A channel of its own, and a plain call around it: cancel_after_begin would pass without any server.
      let channel = ClientChannel(
        ClientChannel.Configuration(target: try ChannelTarget(target), tls: tls, decodeDetails: StatusDetails.decode)
      )
      let service = InteropClient(channel: channel)
      do {
        try await service.emptyUnary()
        try await one.run(service)
        try await service.emptyUnary()
        print("passed \(one.name)")
      } catch {
        failed += 1
        print("FAILED \(one.name): \(error)")
      }
      await channel.close()
    }
    print("\(cases.count - failed) passed, \(failed) failed")
    if failed > 0 { throw ExitCode(1) }
  }

  private func bytes(of path: String) throws -> [UInt8] {
    guard let file = unsafe fopen(path, "rb") else { throw ValidationError("cannot read \(path)") }
    // Open until here; each read stays within the buffer.
    defer { unsafe fclose(file) }
    var result: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = unsafe fread(&buffer, 1, buffer.count, file)
      guard count > 0 else { return result }
      result += buffer[..<count]
    }
  }
}
