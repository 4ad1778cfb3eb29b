internal import Refusals

extension Refusal {
    static func signatureInvalid(_ details: String) -> Refusal {
        Refusal(
            .signatureInvalid, "The token does not carry a valid signature over its content; do not use it.",
            details: details)
    }

    static func certificateUntrusted(_ details: String) -> Refusal {
        Refusal(
            .certificateUntrusted, "The token's signer is not trusted; do not use the token.", details: details)
    }
}
