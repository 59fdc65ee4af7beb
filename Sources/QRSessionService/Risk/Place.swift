import Glibc

/// A place on Earth, to a hundredth of a degree (about a kilometre): more than addresses ever tell.
struct Place: Sendable, Equatable {
  private let latitudeHundredths: Int16
  private let longitudeHundredths: Int16

  /// In degrees; nil for what is on no globe.
  init?(latitude: Double, longitude: Double) {
    guard (-90...90).contains(latitude), (-180...180).contains(longitude) else { return nil }
    latitudeHundredths = Int16((latitude * 100).rounded())
    longitudeHundredths = Int16((longitude * 100).rounded())
  }

  /// Along the surface, by the haversine formula.
  func kilometres(to other: Place) -> Double {
    let (here, there) = (Self.radians(latitudeHundredths), Self.radians(other.latitudeHundredths))
    let latitudes = sin((there - here) / 2)
    let longitudes = sin((Self.radians(other.longitudeHundredths) - Self.radians(longitudeHundredths)) / 2)
    let chord = latitudes * latitudes + cos(here) * cos(there) * longitudes * longitudes
    // Rounding may carry the chord of opposite points a little past 1.
    return 2 * 6371 * asin(min(1, chord.squareRoot()))
  }

  private static func radians(_ hundredths: Int16) -> Double { Double(hundredths) / 100 * .pi / 180 }
}
