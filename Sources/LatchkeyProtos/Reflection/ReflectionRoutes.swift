package import GRPC

/// Server reflection for the tools that explore a server: `grpc.reflection.v1`, and `v1alpha` for older ones.
package enum ReflectionRoutes {
  /// The routes that describe `routes`, and themselves.
  ///
  /// - Parameter files: where the services of `routes` are declared.
  package static func describing(
    _ routes: [RPCRoute],
    files: [DescriptorFile] = LatchkeyDescriptors.files
  ) -> [RPCRoute] {
    let own =
      [ReflectionV1.ServerReflectionMethod.serverReflectionInfo.rpc]
      + [ReflectionV1Alpha.ServerReflectionMethod.serverReflectionInfo.rpc]
    var services: Set<String> = []
    for method in routes.map(\.method) + own {
      // "/package.Service/Method"
      if let service = method.path.split(separator: "/").first { services.insert(String(service)) }
    }
    let index = ReflectionIndex(files: files, services: services.sorted())
    return ReflectionV1.serverReflectionRoutes(ReflectionV1Service(index: index))
      + ReflectionV1Alpha.serverReflectionRoutes(ReflectionV1AlphaService(index: index))
  }
}
