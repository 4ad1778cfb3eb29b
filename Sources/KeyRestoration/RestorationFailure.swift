/// The key could not be restored or the data not opened. One error for every cause that a stranger's bytes can have
/// (a point off the curve, a wrapped key that does not open, a wrong tag, a wrong size), so that it is no oracle: it
/// tells nothing, on purpose.
public struct RestorationFailure: Error, Sendable, Hashable, CustomStringConvertible {
    public init() {}

    public var description: String { "the payment data could not be decrypted" }
}
