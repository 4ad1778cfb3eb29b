/// A refusal on its way to the caller: what was wrong, with what, and what to do.
///
/// Both texts are shown to the caller and written to logs. They never contain an account number, a cryptogram, a
/// key, a PIN or a piece of a request's body: build them from fixed sentences, names of members, sizes and times.
public struct Refusal: Error, Sendable, Equatable {
    public let code: RefusalCode
    /// One sentence for a person.
    public let message: String
    /// What narrows it down, where that gives nothing away: a member's name, a size, a time.
    public let details: String?
    /// Seconds for the Retry-After header, where this refusal knows better than the table of codes.
    public let retryAfter: Int?

    public init(_ code: RefusalCode, _ message: String, details: String? = nil, retryAfter: Int? = nil) {
        self.code = code
        self.message = message
        self.details = details
        self.retryAfter = retryAfter
    }
}
