import Cryptography
import Logging
import ServiceRuntime
import Synchronization

/// The guides' document on disk: read at the start, and again whenever its contents changed.
///
/// A document that cannot be used changes nothing. A changed guide must carry a higher version, by which apps tell.
///
/// Where all instances have the same document elsewhere, the file is only what is offered to them: ``take(_:)`` says what
/// holds.
package final class GuideFile: Sendable {
  private let path: String
  private let logger: Logger
  private let state: Mutex<State>
  /// One writer at a time, so that of two changes at once the later has to know the earlier.
  private let writing = Mutex(())

  private struct State {
    var catalog: GuideCatalog
    /// Of the document that was looked at last, used or not.
    var bytes: [UInt8]?
    var isShared = false
  }

  /// Reads the document. Without a file there are no guides; with one that cannot be used the service does not start.
  package init(path: String, logger: Logger) throws(ConfigurationError) {
    self.path = path
    self.logger = logger
    guard FileContents.exists(path) else {
      state = Mutex(State(catalog: GuideCatalog(), bytes: nil))
      return
    }
    let bytes = try FileContents.read(path)
    do throws(GuideCatalogError) {
      state = Mutex(State(catalog: try GuideCatalog(parsing: bytes), bytes: bytes))
    } catch {
      throw .file(path: path, reason: error.description)
    }
  }

  package var current: GuideCatalog { state.withLock { $0.catalog } }

  /// The document that holds, as an operator writes it.
  package var document: String {
    state.withLock { $0.bytes }.map { String(decoding: $0, as: UTF8.self) } ?? #"{"guides":[]}"#
  }

  /// From now on the file changes nothing by itself.
  package func share() { state.withLock { $0.isShared = true } }

  /// What the file holds; nil when there is none or it cannot be read.
  package var offer: [UInt8]? { FileContents.exists(path) ? try? FileContents.read(path) : nil }

  /// Puts a document in force that all instances have, whatever its versions; none for no guides. True when the guides are
  /// others now.
  package func take(_ bytes: [UInt8]?) throws(GuideCatalogError) -> Bool {
    let catalog =
      try bytes.map { bytes throws(GuideCatalogError) in try GuideCatalog(parsing: bytes) } ?? GuideCatalog()
    return state.withLock { state in
      defer { (state.catalog, state.bytes) = (catalog, bytes) }
      return state.catalog != catalog
    }
  }

  /// Puts a document in the place of the one that holds, in the file as well. Nil, or why it did not. Blocks on the
  /// disk.
  package func replace(_ bytes: [UInt8]) -> GuideCatalogError? {
    writing.withLock { _ in
      do throws(GuideCatalogError) {
        let catalog = try GuideCatalog(parsing: bytes)
        if let guide = catalog.unannounced(since: current) {
          throw GuideCatalogError("guide \(guide) is changed and needs a higher version")
        }
        do throws(SecretFileError) {
          try SecretFile.replace(path, bytes)
        } catch {
          throw GuideCatalogError("the document cannot be written: \(error)")
        }
        _ = refresh()
        return nil
      } catch {
        return error
      }
    }
  }

  /// Reads the document if it is there and was changed. True when the guides are others now.
  package func refresh() -> Bool {
    guard !state.withLock({ $0.isShared }), FileContents.exists(path) else { return false }
    let bytes: [UInt8]
    do throws(ConfigurationError) {
      bytes = try FileContents.read(path)
    } catch {
      logger.error("the guides cannot be read", metadata: ["cause": "\(error)"])
      return false
    }
    let isNew = state.withLock { state in
      guard state.bytes != bytes else { return false }
      state.bytes = bytes
      return true
    }
    guard isNew else { return false }
    let catalog: GuideCatalog
    do throws(GuideCatalogError) {
      catalog = try GuideCatalog(parsing: bytes)
    } catch {
      logger.error("the changed guides are not used", metadata: ["cause": "\(error)"])
      return false
    }
    let old = current
    if let guide = catalog.unannounced(since: old) {
      logger.error(
        "the changed guides are not used: a changed guide needs a higher version", metadata: ["guide": "\(guide)"])
      return false
    }
    state.withLock { $0.catalog = catalog }
    logger.notice("the guides changed", metadata: ["guides": "\(catalog.guides.count)"])
    return catalog != old
  }
}
