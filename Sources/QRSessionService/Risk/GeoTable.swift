import Callers
import LatchkeyModel
import ServiceRuntime

/// Where networks are: ranges of addresses with a place each, found by halving.
///
/// Read from comma-separated values whose first line names the columns. Needed are `latitude` and `longitude`, and
/// either `network` (CIDR, as in MaxMind's City blocks files) or `start_ip` and `end_ip`; other columns are passed
/// over, and so are rows without coordinates. IPv4 and IPv6 may be mixed. Kept are 12 bytes for an IPv4 range and 20
/// for an IPv6 one.
struct GeoTable: Sendable {
  private var v4 = Ranges<UInt32>()
  /// By the upper half of the address: nobody locates anything smaller than a /64.
  private var v6 = Ranges<UInt64>()

  /// A file that is no such table.
  struct Refusal: Error, Equatable {
    /// From 1.
    let line: Int
    let reason: String
  }

  private struct Ranges<Key: FixedWidthInteger & Sendable>: Sendable {
    var starts: [Key] = []
    var ends: [Key] = []
    var places: [Place] = []

    func place(of address: Key) -> Place? {
      var (low, high) = (0, starts.count)
      while low < high {
        let middle = (low + high) / 2
        if starts[middle] <= address { low = middle + 1 } else { high = middle }
      }
      return low > 0 && address <= ends[low - 1] ? places[low - 1] : nil
    }

    /// Orders the ranges. False when two of them overlap, which would make the answer a matter of luck.
    mutating func sort() -> Bool {
      if !zip(starts, starts.dropFirst()).allSatisfy({ $0 < $1 }) {
        let order = starts.indices.sorted { starts[$0] < starts[$1] }
        starts = order.map { starts[$0] }
        ends = order.map { ends[$0] }
        places = order.map { places[$0] }
      }
      return zip(ends, starts.dropFirst()).allSatisfy { $0 < $1 }
    }
  }

  init() {}

  var count: Int { v4.starts.count + v6.starts.count }

  func place(of address: NetworkAddress) -> Place? {
    switch address {
    case .v4(let address): v4.place(of: address)
    case .v6(let high, _): v6.place(of: high)
    }
  }

  // MARK: - Reading

  /// Takes a file line by line.
  struct Reader {
    private struct Columns {
      var network: Int?
      var start: Int?
      var end: Int?
      let latitude: Int
      let longitude: Int

      init?(_ names: [String]) {
        guard let latitude = names.firstIndex(of: "latitude"), let longitude = names.firstIndex(of: "longitude") else {
          return nil
        }
        self.latitude = latitude
        self.longitude = longitude
        network = names.firstIndex(of: "network")
        start = names.firstIndex(of: "start_ip")
        end = names.firstIndex(of: "end_ip")
        guard network != nil || (start != nil && end != nil) else { return nil }
      }
    }

    private var table = GeoTable()
    private var columns: Columns?
    private var line = 0

    /// What follows is another file, with columns of its own.
    mutating func beginFile() {
      columns = nil
      line = 0
    }

    mutating func take(_ bytes: ArraySlice<UInt8>) throws(Refusal) {
      line += 1
      let bytes = bytes.last == UInt8(ascii: "\r") ? bytes.dropLast() : bytes
      if bytes.isEmpty { return }
      let fields = GeoTable.fields(bytes)
      guard let columns else {
        guard let columns = Columns(fields) else {
          throw Refusal(line: line, reason: "must name the columns: network (or start_ip, end_ip), latitude, longitude")
        }
        self.columns = columns
        return
      }
      guard table.count < Limits.geoRanges else { throw Refusal(line: line, reason: "is one range too many") }
      func field(_ index: Int) -> String { index < fields.count ? fields[index] : "" }
      let (latitude, longitude) = (field(columns.latitude), field(columns.longitude))
      if latitude.isEmpty, longitude.isEmpty { return }
      guard let north = Double(latitude), let east = Double(longitude),
        let place = Place(latitude: north, longitude: east)
      else { throw Refusal(line: line, reason: "has no latitude and longitude in degrees") }
      let range =
        if let network = columns.network {
          NetworkRange(field(network)).map { ($0.first, $0.last) }
        } else {
          GeoTable.range(from: field(columns.start ?? 0), to: field(columns.end ?? 0))
        }
      guard let range else { throw Refusal(line: line, reason: "has no range of addresses") }
      table.append(range, place)
    }

    mutating func finish() throws(Refusal) -> GeoTable {
      guard columns != nil else { throw Refusal(line: 1, reason: "must name the columns") }
      guard table.v4.sort(), table.v6.sort() else { throw Refusal(line: line, reason: "has ranges that overlap") }
      return table
    }
  }

  private typealias AddressRange = (first: NetworkAddress, last: NetworkAddress)

  private mutating func append(_ range: AddressRange, _ place: Place) {
    switch (range.first, range.last) {
    case (.v4(let first), .v4(let last)):
      v4.starts.append(first)
      v4.ends.append(last)
      v4.places.append(place)
    case (.v6(let first, _), .v6(let last, _)):
      // Parts of one /64 are one place: the first one's.
      if let end = v6.ends.last, v6.starts.last ?? 0 <= first, first <= end, first == last { return }
      v6.starts.append(first)
      v6.ends.append(last)
      v6.places.append(place)
    default:
      break
    }
  }

  private static func range(from first: String, to last: String) -> AddressRange? {
    guard let first = NetworkAddress(first), let last = NetworkAddress(last) else { return nil }
    switch (first, last) {
    case (.v4(let low), .v4(let high)) where low <= high: return (first, last)
    case (.v6(let low, _), .v6(let high, _)) where low <= high: return (first, last)
    default: return nil
    }
  }

  /// The fields of one line; double quotes may enclose one (RFC 4180).
  private static func fields(_ line: ArraySlice<UInt8>) -> [String] {
    var fields: [String] = []
    var field: [UInt8] = []
    var isQuoted = false
    for byte in line {
      if byte == UInt8(ascii: "\"") {
        isQuoted.toggle()
      } else if byte == UInt8(ascii: ","), !isQuoted {
        fields.append(String(decoding: field, as: UTF8.self))
        field.removeAll(keepingCapacity: true)
      } else {
        field.append(byte)
      }
    }
    fields.append(String(decoding: field, as: UTF8.self))
    return fields
  }
}
