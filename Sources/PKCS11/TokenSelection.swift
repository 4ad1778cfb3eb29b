/// Why no slot was chosen.
public enum TokenSelectionError: Error, Sendable, Equatable, CustomStringConvertible {
    /// No token has what the URI names. Tokens made after the library was initialised may not be seen.
    case notFound
    /// More than one has: the serial number tells them apart.
    case ambiguous(serialNumbers: [String])
    case call(CallError)

    public var description: String {
        switch self {
        case .notFound:
            "the library shows no initialised token with that label and serial number"
        case .ambiguous(let serialNumbers):
            "several tokens fit: add the serial number (serial=) to the token's URI, one of "
                + serialNumbers.joined(separator: ", ")
        case .call(let error):
            "\(error)"
        }
    }
}

extension Module {
    /// The slot whose initialised token the URI names. A slot that does not answer is passed over, unless none fits.
    public func slot(holding uri: TokenURI) throws(TokenSelectionError) -> (slot: Slot, token: TokenInfo) {
        var fitting: [(slot: Slot, token: TokenInfo)] = []
        var failure: CallError?
        do throws(CallError) {
            for slot in try slots() {
                do throws(CallError) {
                    let token = try slot.tokenInfo()
                    if token.flags.contains(.tokenInitialized), uri.matches(token) { fitting.append((slot, token)) }
                } catch {
                    failure = error
                }
            }
        } catch {
            throw .call(error)
        }
        guard fitting.count < 2 else { throw .ambiguous(serialNumbers: fitting.map(\.token.serialNumber)) }
        guard let found = fitting.first else { throw failure.map(TokenSelectionError.call) ?? .notFound }
        return found
    }
}
