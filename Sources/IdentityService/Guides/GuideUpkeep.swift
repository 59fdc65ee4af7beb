import ServiceRuntime

/// Reads the guides again when they change, and tells those who watch.
package struct GuideUpkeep: Sendable {
  let guides: GuideFile
  let guideWatches: GuideWatches

  var tasks: [BackgroundTask] { [BackgroundTask("guides") { await keep() }] }

  private func keep() async {
    while await pause(Limits.guidesInterval) { refresh() }
  }

  package func refresh() {
    if guides.refresh() { guideWatches.definitionsChanged() }
  }
}
