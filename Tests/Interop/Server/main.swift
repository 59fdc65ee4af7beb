import Glibc
import GRPC
import InteropProtos
import LatchkeyProtos
import Logging
import Transport

// latchkey-interop [PORT]: serves the gRPC interoperability cases on loopback, in cleartext, until its input ends.
// Port 0, the default, takes a free one. The first line of output is the port.

let port = CommandLine.arguments.count > 1 ? Int(CommandLine.arguments[1]) : 0
guard let port, CommandLine.arguments.count <= 2 else {
  print("usage: latchkey-interop [PORT]")
  exit(2)
}

let health = HealthService(services: ["grpc.testing.TestService"], initial: .serving)
let routes = GRPCTesting.testServiceRoutes(TestService()).map { route in
  var route = route
  // What stock gRPC servers take: large_unary sends 271,828 bytes.
  route.messageLimit = 4 * 1024 * 1024
  return route
}
let served = routes + HealthV1.healthRoutes(health)
let server = RPCServer(
  configuration: RPCServer.Configuration(host: "127.0.0.1", port: port),
  routes: served + ReflectionRoutes.describing(served),
  statusDetailsEncoder: StatusDetails.encode,
  logger: Logger(label: "latchkey-interop")
)
let address = try await server.start()
print(address.port ?? port)
fflush(nil)

while readLine() != nil {}
health.drain()
await server.shutDown()
