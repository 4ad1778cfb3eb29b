public import Refusals

extension Refusal {
    /// - Parameter details: the member's path and what is wrong with it, never its value.
    static func malformedToken(_ details: String) -> Refusal {
        Refusal(
            .malformedToken, "The token does not have the shape of Apple's payment token; send it as it was received.",
            details: details)
    }

    /// Without details, on purpose: what exactly failed would be an oracle.
    public static var decryptionFailed: Refusal {
        Refusal(
            .decryptionFailed,
            "The token's data cannot be decrypted; do not retry it, and ask the customer to pay again.")
    }
}
