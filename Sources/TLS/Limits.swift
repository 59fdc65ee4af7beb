/// The bounds of this module, each with the reason for its number.
enum Limits {}
