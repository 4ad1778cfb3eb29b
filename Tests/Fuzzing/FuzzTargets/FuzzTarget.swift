// The inputs from outside that scripts/fuzz varies under coverage. Each target parses an input as the programs do, and its
// oracle compares the result with a second parser, with the input itself, or with a property that always holds. A crash, a
// failed assertion, a memory error and an input that takes too long are findings without an oracle.
//
// A target NAME is a file here and an element of `FuzzTarget.all`. It has a corpus (Corpora/NAME), which the tests replay,
// and a planted fault (Faults/NAME.patch), which `scripts/fuzz --prove NAME` must find; perhaps a dictionary
// (Dictionaries/NAME).

/// An input from outside, with its parser and its oracle.
public struct FuzzTarget: Sendable {
    public let name: String
    /// The longest input that is tried, in bytes.
    public let longest: Int
    /// The files and folders of the tested code. Its coverage is that of these.
    public let sources: [String]
    /// Runs one input.
    ///
    /// - Throws: ``Disagreement`` if the oracle disagrees.
    public let check: @Sendable (_ input: [UInt8]) async throws -> Void

    public static let all: [FuzzTarget] = [
        .cms, .forgedToken, .paymentToken, .requestJSON, .workerFrames, .tlsHandshake, .auditLines, .tokenURI,
        .radialXML, .http, .keyFiles, .configuration, .answers, .portalAnswers, .databaseAnswers, .googlePayToken,
    ]
}

/// The oracle's finding: the program's result is wrong.
public struct Disagreement: Error, CustomStringConvertible {
    public let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// Throws a ``Disagreement`` unless the condition is true.
func expect(_ condition: Bool, _ description: @autoclosure () -> String) throws(Disagreement) {
    guard condition else { throw Disagreement(description()) }
}
