import JSON

/// Every command prints documents.
typealias JSONValue = JSON.JSONValue
typealias JSONError = JSON.JSONError
