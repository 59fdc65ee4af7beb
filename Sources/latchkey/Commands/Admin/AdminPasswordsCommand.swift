import ArgumentParser
import Cryptography

struct AdminPasswordsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "passwords",
    abstract: "What the hash of a password should cost on this machine.",
    discussion: """
      Measures Argon2id here and says which password.memoryKib and password.passes keep one hash within the time. Run \
      it on the machine of latchkey-identity while that is idle. Changes nothing: put the two into its configuration; \
      passwords are hashed anew as people sign in. Never less than OWASP's Password Storage Cheat Sheet asks for.
      """,
    examples: ["latchkey admin passwords --target-ms 50"]
  )

  @Option(help: "The most milliseconds that one hash may take.")
  var targetMs = 100

  @Option(help: "The most memory, in MiB, that one hash may take; each of password.threads takes as much.")
  var memoryMib = 64

  @Flag(help: "Answer in JSON, for scripts.")
  var json = false

  @OptionGroup var color: ColorOption

  func validate() throws {
    guard (10...10_000).contains(targetMs) else { throw ValidationError("--target-ms must be 10 to 10000") }
    let bounds = Argon2Calibration.memoryBounds
    let most = (Int(bounds.lowerBound) / 1024)...(Int(bounds.upperBound) / 1024)
    guard most.contains(memoryMib) else {
      throw ValidationError("--memory-mib must be \(most.lowerBound) to \(most.upperBound)")
    }
  }

  func run() async throws {
    let target: Duration = .milliseconds(targetMs)
    let calibration = Argon2Calibration(target: target, mostMemoryKiB: UInt32(memoryMib) * 1024)
    let finding = try await calibration.find { parameters in try await Self.measure(parameters) }
    let found = finding.parameters
    let milliseconds = Output.milliseconds(finding.time)
    let isWithin = finding.time <= target
    var text = """
      --password-memory-kib \(found.memoryKiB) --password-passes \(found.passes)
      One hash takes \(milliseconds) ms here, \(found.memoryKiB / 1024) MiB and one core.
      """
    if !isWithin { text += "\nThat is more than asked for, but less would be too cheap to guess against." }
    Output(json: json).result(
      text,
      [
        "memory_kib": .integer(Int64(found.memoryKiB)), "passes": .integer(Int64(found.passes)),
        "hash_ms": .integer(milliseconds), "within_target": .bool(isWithin),
      ])
  }

  /// The middle one of three, after one that pays for the memory.
  private static func measure(_ parameters: Argon2Parameters) async throws -> Duration {
    let hasher = PasswordHasher(parameters: parameters)
    defer { hasher.stop() }
    let clock = ContinuousClock()
    var times: [Duration] = []
    for round in 0...3 {
      let began = clock.now
      _ = try await hasher.hash("correct horse battery staple")
      if round > 0 { times.append(clock.now - began) }
    }
    return times.sorted()[1]
  }
}
