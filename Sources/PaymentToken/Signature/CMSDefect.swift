/// What is wrong with a CMS structure, in words that go into `signature_invalid`'s details: never bytes of it.
struct CMSDefect: Error {
    let reason: String

    init(_ reason: String) {
        self.reason = reason
    }
}
