// swift-tools-version: 6.2
import PackageDescription

/// Every target of ours: Swift 6 language mode, each unsafe crossing marked, no warning left standing.
let strict: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .strictMemorySafety(),
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// What tests play through most often: the rules, what they say it in, the storage, identity, and what every call passes
/// through. Debug builds optimise it as well, with all of its assertions and checks.
let played: [SwiftSetting] =
  strict + [.unsafeFlags(["-O", "-assert-config", "Debug"], .when(configuration: .debug))]

/// The modules that every call passes through. Release builds leave out the checks that no two accesses to one variable
/// overlap, which unit tests, fuzzing and the attacks on debug builds make. Without them a poll takes 0.66 of the CPU at 50
/// connections of 100 streams, and 0.93 at 500 of one stream.
let hot: [SwiftSetting] =
  played + [.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))]

/// Executables are linked by the toolchain's lld, which is quicker than Debian's gold, and which says nothing of mktemp: a
/// part of Foundation that swift-configuration brings along names it, so that gold warns once for each executable that is
/// linked with the static standard library.
let quiet: [LinkerSetting] = [.unsafeFlags(["-use-ld=lld"], .when(platforms: [.linux]))]

let nio: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioEmbedded: Target.Dependency = .product(name: "NIOEmbedded", package: "swift-nio")
let nioHTTP1: Target.Dependency = .product(name: "NIOHTTP1", package: "swift-nio")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let metrics: Target.Dependency = .product(name: "CoreMetrics", package: "swift-metrics")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let signals: Target.Dependency = .product(name: "UnixSignals", package: "swift-service-lifecycle")
let configuration: Target.Dependency = .product(name: "Configuration", package: "swift-configuration")
let arguments: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")
let histogram: Target.Dependency = .product(name: "Histogram", package: "hdrhistogram-swift")
let deque: Target.Dependency = .product(name: "DequeModule", package: "swift-collections")
let heap: Target.Dependency = .product(name: "HeapModule", package: "swift-collections")

/// A Swift module of ours.
func module(
  _ name: String,
  path: String? = nil,
  _ dependencies: [Target.Dependency] = [],
  settings: [SwiftSetting] = strict
) -> Target {
  .target(name: name, dependencies: dependencies, path: path, swiftSettings: settings)
}

/// The unit tests of a module, in `Tests/<module>Tests`, with what several of them arrange with.
func tests(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
  .testTarget(
    name: "\(name)Tests",
    dependencies: [.target(name: name), "TestSupport"] + dependencies,
    swiftSettings: strict
  )
}

/// A C library of the system, imported by exactly one Swift module.
func system(_ name: String, _ pkgConfig: String, _ debian: String) -> Target {
  .systemLibrary(name: name, pkgConfig: pkgConfig, providers: [.apt([debian])])
}

let package = Package(
  name: "latchkey",
  platforms: [.macOS(.v26)],
  products: [
    .executable(name: "latchkey-identity", targets: ["latchkey-identity"]),
    .executable(name: "latchkey-qr", targets: ["latchkey-qr"]),
    .executable(name: "latchkey-migrator", targets: ["latchkey-migrator"]),
    .executable(name: "latchkey", targets: ["latchkey"]),
    .library(name: "LatchkeyClient", targets: ["LatchkeyClient"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: []),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
  ],
  targets: [
    // C libraries of the system.
    system("CNghttp2", "libnghttp2", "libnghttp2-dev"),
    system("CSSL", "libssl", "libssl-dev"),
    system("CCrypto", "libcrypto", "libssl-dev"),
    system("CArgon2", "libargon2", "libargon2-dev"),
    system("CSQLite", "sqlite3", "libsqlite3-dev"),
    system("CPostgreSQL", "libpq", "libpq-dev"),
    system("CProtobufC", "libprotobuf-c", "libprotobuf-c-dev"),
    system("CQREncode", "libqrencode", "libqrencode-dev"),
    system("CZlib", "zlib", "zlib1g-dev"),
    system("CCurl", "libcurl", "libcurl4-openssl-dev"),
    // Words of C's that Swift lacks.
    .systemLibrary(name: "CListen"),
    .systemLibrary(name: "CPrefetch"),

    // Who calls, and how much of what is bounded each may hold.
    module("Callers"),

    // The wire: bytes in, events out.
    module("HTTP2", ["CNghttp2", nio], settings: hot),
    module("TLS", ["CSSL", nio], settings: hot),
    module("Compression", ["CZlib"]),
    module("GRPC", ["Compression", nio], settings: hot),
    // Connections: what both sides need, and each side's half. An app links the client's alone.
    module("Transport", ["HTTP2", "TLS", nio], settings: hot),
    module("TransportClient", ["Transport", "HTTP2", "TLS", "GRPC", nio, nioPosix, deque], settings: hot),
    module(
      "TransportServer",
      ["Callers", "CListen", "Transport", "HTTP2", "TLS", "GRPC", nio, nioPosix, nioHTTP1, logging], settings: hot),

    // Messages: protobuf-c, the generator and what it generates.
    module("Protobuf", ["CProtobufC", nio]),
    .target(name: "CDescriptorProtos", dependencies: ["CProtobufC"]),
    module("ProtoGenerator", ["CDescriptorProtos"]),
    .executableTarget(
      name: "protoc-gen-latchkey", dependencies: ["ProtoGenerator"], swiftSettings: strict, linkerSettings: quiet),
    .target(name: "CLatchkeyProtos", dependencies: ["CProtobufC"]),
    module("LatchkeyProtos", ["CLatchkeyProtos", "Protobuf", "GRPC", nio]),

    // The domain and its storage.
    module("JSON"),
    module("Cryptography", ["CCrypto", "CArgon2", "JSON", "LatchkeyModel"]),
    module("LatchkeyModel", settings: played),
    module("Storage", ["LatchkeyModel"], settings: played),
    module("Domain", ["Storage", "LatchkeyModel"], settings: played),
    module("StorageMemory", ["Storage", "LatchkeyModel"], settings: played),
    module("StorageSQLite", ["Callers", "Storage", "LatchkeyModel", "CSQLite", deque], settings: played),
    module("StoragePostgreSQL", ["Callers", "Storage", "LatchkeyModel", "CPostgreSQL", deque], settings: played),

    // Other people's servers.
    module("Transfers", ["CCurl", "Cryptography", "LatchkeyModel"]),

    // The services.
    module(
      "ServiceRuntime",
      [
        "Callers", "GRPC", "TransportClient", "TransportServer", "TLS", "JSON", "LatchkeyProtos", "LatchkeyModel",
        "Cryptography", "Storage", "StorageSQLite", "StoragePostgreSQL", nio, nioPosix, logging, metrics, lifecycle,
        signals,
        configuration,
      ]),
    module(
      "IdentityService",
      [
        "Callers", "ServiceRuntime", "JSON", "LatchkeyModel", "LatchkeyProtos", "GRPC", "TransportServer",
        "Cryptography", "Domain", "Storage", "StorageSQLite", "Transfers", nio, logging,
      ],
      settings: played),
    module(
      "QRSessionService",
      [
        "Callers", "ServiceRuntime", "JSON", "LatchkeyModel", "LatchkeyProtos", "GRPC", "TransportServer",
        "Cryptography", "Storage", "StorageSQLite", "StoragePostgreSQL", "QRCode", "CPrefetch", nio, logging, heap,
      ],
      settings: hot),
    module(
      "MigrationService",
      [
        "ServiceRuntime", "LatchkeyModel", "LatchkeyProtos", "GRPC", "Callers", "Cryptography", "Domain", "Storage",
        "StorageSQLite", logging,
      ]),
    .executableTarget(
      name: "latchkey-identity", dependencies: ["IdentityService", "ServiceRuntime"], swiftSettings: strict,
      linkerSettings: quiet),
    .executableTarget(
      name: "latchkey-qr", dependencies: ["QRSessionService", "ServiceRuntime"], swiftSettings: strict,
      linkerSettings: quiet),
    .executableTarget(
      name: "latchkey-migrator", dependencies: ["MigrationService", "ServiceRuntime"], swiftSettings: strict,
      linkerSettings: quiet),

    // The app's side.
    module("QRCode", ["CQREncode", "Compression"]),
    module(
      "LatchkeyClient", ["LatchkeyProtos", "LatchkeyModel", "GRPC", "TransportClient", "TLS", "Cryptography", "JSON"]),
    module("LoadTest", ["JSON", histogram]),
    .executableTarget(
      name: "latchkey",
      dependencies: [
        "LatchkeyClient", "LatchkeyModel", "LatchkeyProtos", "LoadTest", "GRPC", "TransportClient", "TLS",
        "Cryptography", "JSON", "QRCode", "Storage", "StoragePostgreSQL", "StorageSQLite", arguments, signals,
      ],
      swiftSettings: strict,
      linkerSettings: quiet),

    // Tests.
    module("TestSupport", path: "Tests/TestSupport", ["LatchkeyModel", "TLS"]),
    tests("Callers"),
    tests("HTTP2", [nio]),
    tests("TLS", [nio]),
    tests("Compression"),
    tests("GRPC", [nio]),
    module(
      "TransportTestSupport", path: "Tests/TransportTestSupport", ["TransportServer", "GRPC", nio, logging]),
    tests("Transport", ["TransportServer", "TLS", nio, nioPosix, nioEmbedded]),
    tests(
      "TransportClient",
      ["TransportServer", "TransportTestSupport", "GRPC", "HTTP2", "TLS", nio, nioPosix, nioEmbedded, logging]),
    tests(
      "TransportServer",
      [
        "Transport", "TransportClient", "TransportTestSupport", "Callers", "Compression", "GRPC", "HTTP2", nio,
        nioPosix, nioEmbedded, logging,
      ]),
    tests("Protobuf", ["CProtobufC", nio]),
    .target(name: "CInteropProtos", dependencies: ["CProtobufC"], path: "Tests/Interop/CInteropProtos"),
    module(
      "InteropProtos", path: "Tests/Interop/Protos", ["CInteropProtos", "LatchkeyProtos", "Protobuf", "GRPC", nio]),
    .executableTarget(
      name: "latchkey-interop",
      dependencies: [
        "InteropProtos", "LatchkeyProtos", "ServiceRuntime", "GRPC", "TransportClient", "TransportServer", "TLS", nio,
        logging,
        arguments,
      ],
      path: "Tests/Interop/Program",
      swiftSettings: strict,
      linkerSettings: quiet),
    .target(
      name: "CGoldenProtos", dependencies: ["CProtobufC"], path: "Tests/ProtoGeneratorTests/Golden/CGoldenProtos"),
    .testTarget(
      name: "ProtoGeneratorTests",
      dependencies: ["ProtoGenerator", "CGoldenProtos", "Protobuf", "LatchkeyProtos", "GRPC", nio],
      exclude: [
        "Golden/CGoldenProtos", "Golden/Descriptors", "Golden/proto", "Golden/refused", "make_vectors.py",
      ],
      swiftSettings: strict),
    .testTarget(
      name: "LatchkeyProtosTests",
      dependencies: ["LatchkeyProtos", "GRPC", "TestSupport", nio],
      exclude: ["make_vectors.py"],
      swiftSettings: strict),
    tests("JSON"),
    tests("Cryptography", ["JSON", "LatchkeyModel"]),
    tests("LatchkeyModel"),
    tests("Domain", ["Storage", "StorageMemory", "StorageSQLite", "StoragePostgreSQL", "LatchkeyModel"]),
    .testTarget(
      name: "StorageConformanceTests",
      dependencies: [
        "Storage", "StorageMemory", "StorageSQLite", "StoragePostgreSQL", "LatchkeyModel", "TestSupport",
      ],
      path: "Tests/StorageConformance",
      swiftSettings: strict),
    tests("StorageSQLite", ["Callers", "Storage", "LatchkeyModel"]),
    tests("StoragePostgreSQL", ["Callers", "Storage", "LatchkeyModel"]),
    tests(
      "ServiceRuntime",
      [
        "Callers", "GRPC", "TransportServer", "TLS", "JSON", "LatchkeyProtos", "LatchkeyModel", "Cryptography",
        "Storage", "StoragePostgreSQL", nio, nioPosix, logging, metrics,
      ]),
    tests("Transfers", ["LatchkeyModel", nio, nioPosix]),
    tests(
      "IdentityService",
      [
        "Callers", "Domain", "ServiceRuntime", "JSON", "LatchkeyModel", "LatchkeyProtos", "GRPC", "TransportServer",
        "Cryptography", "Storage", "StoragePostgreSQL", "StorageSQLite", "Transfers", nio, logging,
      ]),
    tests(
      "QRSessionService",
      [
        "Callers", "ServiceRuntime", "JSON", "LatchkeyModel", "LatchkeyProtos", "GRPC", "TransportServer",
        "Cryptography", "Storage", "StoragePostgreSQL", "StorageSQLite", "StorageMemory", logging, nio,
      ]),
    tests(
      "MigrationService",
      [
        "ServiceRuntime", "LatchkeyModel", "LatchkeyProtos", "GRPC", "TransportClient", "TransportServer",
        "Cryptography", "Domain", "Storage", "StoragePostgreSQL", "StorageSQLite", logging,
      ]),
    tests("LoadTest", ["JSON"]),
    tests("QRCode", ["CZlib"]),
    tests(
      "LatchkeyClient",
      [
        "IdentityService", "ServiceRuntime", "LatchkeyProtos", "LatchkeyModel", "GRPC", "TransportServer",
        "Cryptography", "StorageSQLite", "Transfers", logging, nio,
      ]),
  ]
)

// The fuzz targets: everything they reach is compiled anew, watched by libFuzzer, so that only Tests/Tools/fuzz builds them.
if Context.environment["LATCHKEY_FUZZ"] != nil {
  package.targets.append(
    .executableTarget(
      name: "latchkey-fuzz",
      dependencies: [
        "HTTP2", "GRPC", "TLS", "Transport", "TransportServer", "JSON", "LatchkeyProtos", "LatchkeyModel",
        "Cryptography", "TestSupport", nio, nioEmbedded, logging,
      ],
      path: "Tests/Fuzz/Targets",
      // libFuzzer has the `main` of the program.
      swiftSettings: strict + [.unsafeFlags(["-parse-as-library"])]
    )
  )
}

// What the engines cost, side by side: for who measures.
if Context.environment["LATCHKEY_ENGINE_COST"] != nil {
  package.targets.append(
    .executableTarget(
      name: "engine-cost",
      dependencies: ["Domain", "LatchkeyModel", "Storage", "StoragePostgreSQL", "StorageSQLite"],
      path: "Tests/Benchmarks/EngineCost",
      swiftSettings: strict))
}
