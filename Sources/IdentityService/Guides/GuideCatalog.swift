import LatchkeyModel

/// The guides there are, in the order of their document.
package struct GuideCatalog: Sendable, Equatable {
  package let guides: [GuideDefinition]

  package init(_ guides: [GuideDefinition] = []) {
    self.guides = guides
  }

  package subscript(id: GuideID) -> GuideDefinition? { guides.first { $0.id == id } }

  /// The first guide that differs from the one of the same id in `earlier` without a higher version, by which apps tell
  /// that there is something new.
  package func unannounced(since earlier: GuideCatalog) -> GuideID? {
    guides.first { guide in
      guard let old = earlier[guide.id] else { return false }
      return guide != old && guide.version <= old.version
    }?.id
  }
}
