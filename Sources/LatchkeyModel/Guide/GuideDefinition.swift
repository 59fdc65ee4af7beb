/// A guide: its steps in the order in which they are shown. Only the last may be an end.
package struct GuideDefinition: Sendable, Equatable {
  package let id: GuideID
  package let version: Int64
  package let steps: [GuideStep]

  /// Nil unless there is a step to show, no step occurs twice, none is newer than the guide and only the last is an
  /// end.
  package init?(id: GuideID, version: Int64, steps: [GuideStep]) {
    guard version > 0, let first = steps.first, !first.isEnd, Set(steps.map(\.id)).count == steps.count,
      steps.allSatisfy({ (1...version).contains($0.sinceVersion) }), !steps.dropLast().contains(where: \.isEnd)
    else { return nil }
    self.id = id
    self.version = version
    self.steps = steps
  }

  /// The steps that an app may have been built for, when it knows the guide up to a version.
  package func steps(upTo version: Int64) -> [GuideStep] { steps.filter { $0.sinceVersion <= version } }

  func index(of step: GuideID) -> Int? { steps.firstIndex { $0.id == step } }
}
