/// Letters as strokes of a pen, for pictures that are drawn where no font may be installed.
///
/// A stroke is a run of points of two digits: x to the right from 0, y upwards with the baseline at 2, small letters up
/// to 7 and capitals up to 9. A blank parts two strokes; a stroke of one place is a dot.
enum StrokeFont {
  /// Units from the baseline to the top of a capital.
  static let capitalHeight = 7.0
  private static let blankWidth = 3.5
  private static let letterGap = 2.0

  private static let glyphs: [Character: String] = [
    "0": "193948433212030819", "1": "082922", "2": "08193948470242", "3": "081939484736 16364543321203",
    "4": "3932 390444", "5": "490906364543321203", "6": "4839190803123243453606", "7": "094912",
    "8": "193948473616070819 163645433212030516", "9": "0312324348391908071646", "a": "17374642 451504031242 ",
    "b": "0902 0617374643321203", "c": "4637170603123243", "d": "4942 4637170603123243", "e": "05454637170603123243",
    "f": "39291812 0737", "g": "4741301001 4637170603123243", "h": "0902 0617374642", "i": "0702 0909",
    "j": "171100 1919", "k": "0902 4704 1542", "l": "090312", "m": "0702 0617273632 3647576662", "n": "0702 0617374642",
    "o": "173746433212030617", "p": "0700 0617374643321203", "q": "4740 4637170603123243", "r": "0702 051737",
    "s": "46371706153544321203", "t": "19131222 0737", "u": "0703123243 4742", "v": "072247", "w": "0712365267",
    "x": "0742 0247", "y": "0722 471100", "z": "07470242", "A": "022942 1434", "B": "09023243453606 0939484736",
    "C": "4839190803123243", "D": "09023243483909", "E": "49090242 0636", "F": "490902 0636",
    "G": "48391908031232434525", "H": "0902 4942 0646", "I": "0902", "J": "4943321203", "K": "0902 4905 1642",
    "L": "090242", "M": "0209355962", "N": "02094249", "O": "194958534212030819", "P": "02093948473606",
    "Q": "194958534212030819 3452", "R": "02093948473606 2642", "S": "483919080716364543321203", "T": "0949 2922",
    "U": "090312324349", "V": "092249", "W": "0912365269", "X": "0942 0249", "Y": "092549 2522", "Z": "09490242",
    ".": "0202", ",": "0301", ":": "0202 0606", ";": "0301 0606", "-": "0535", "+": "0545 2327", "/": "0139",
    "%": "5912 0919170709 5464625254", "(": "19080311", ")": "09181301", "<": "470543", "≤": "490644 0242",
    ">": "074503", "=": "0646 0444", "µ": "0700 0312223243 4742", "'": "0907", "\"": "0907 2927", "_": "0252",
    "×": "0743 0347", "!": "0905 0202", "?": "08193948472524 2222", "#": "1218 3238 0646 0444", "[": "19090111",
    "]": "09191101", "|": "0901", "*": "2824 0745 0547", "&": "52082938360403123254", "✔": "051247", "✘": "0742 0247",
    "·": "0505",
  ]
  /// What a letter that the table does not have is drawn as: an empty box.
  private static let unknown = "0949420209"

  /// The strokes of a text in units, from the point (0, 0) on its baseline; and its width.
  static func strokes(of text: String) -> (strokes: [[(x: Double, y: Double)]], width: Double) {
    var strokes: [[(x: Double, y: Double)]] = []
    var left = 0.0
    for letter in text {
      guard letter != " " else {
        left += blankWidth
        continue
      }
      var width = 0.0
      for word in (glyphs[letter] ?? unknown).split(separator: " ") {
        let digits = word.compactMap(\.wholeNumberValue).map(Double.init)
        var stroke: [(x: Double, y: Double)] = []
        for at in stride(from: 0, to: digits.count - 1, by: 2) {
          width = max(width, digits[at])
          stroke.append((left + digits[at], digits[at + 1] - 2))
        }
        strokes.append(stroke)
      }
      left += width + letterGap
    }
    return (strokes, max(0, left - letterGap))
  }
}
