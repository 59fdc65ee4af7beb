import ServiceRuntime

/// Reads the guides again when they change, and tells those who watch.
package struct GuideUpkeep: Sendable {
  let guides: GuideFile
  let guideWatches: GuideWatches
  /// Nil where they are in a file alone.
  package let documents: SharedDocumentTail?

  var tasks: [BackgroundTask] { [documents?.task ?? BackgroundTask("guides") { await keep() }] }

  private func keep() async {
    while await pause(Limits.guidesInterval) { refresh() }
  }

  package func refresh() {
    if guides.refresh() { guideWatches.definitionsChanged() }
  }
}
