/// Waits for the next round of background work. False when the service is stopping.
func pause(_ duration: Duration) async -> Bool {
  do {
    try await Task.sleep(for: duration)
    return true
  } catch {
    return false
  }
}
