internal import NIOCore

/// The cores that this process may use.
enum Cores {
  /// How many they are: of what the container is granted and what the process is bound to the smaller. More event loops
  /// than cores only wait for one another.
  static var usable: Int { min(ProcessFacts.cores() ?? .max, System.coreCount) }
}
