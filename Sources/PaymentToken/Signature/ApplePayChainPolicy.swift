internal import SwiftASN1
internal import X509

/// What a chain of an Apple Pay token must be beyond RFC 5280's path rules: exactly leaf, intermediate and root, each
/// with the key usage for what it did.
///
/// `RFC5280Policy` does not police key usage, and a `Verifier` takes a leaf that is itself among the roots alone; hence
/// the count.
struct ApplePayChainPolicy: VerifierPolicy {
    /// Apple's markers are understood, should they ever be critical.
    let verifyingCriticalExtensions: [ASN1ObjectIdentifier] = [.applePayLeafMarker, .applePayIntermediateMarker]

    func chainMeetsPolicyRequirements(chain: UnverifiedCertificateChain) -> PolicyEvaluationResult {
        guard chain.count == 3
        else { return .failsToMeetPolicy(reason: "the chain is not leaf, intermediate and root") }
        do {
            return try evaluate(leaf: chain[0].extensions, intermediate: chain[1].extensions)
        } catch {
            return .failsToMeetPolicy(reason: "an extension of the chain's certificates cannot be read")
        }
    }

    private func evaluate(
        leaf: Certificate.Extensions, intermediate: Certificate.Extensions
    ) throws -> PolicyEvaluationResult {
        if case .isCertificateAuthority = try leaf.basicConstraints {
            return .failsToMeetPolicy(reason: "the leaf is a certificate authority")
        }
        guard let leafUsage = try leaf.keyUsage, leafUsage.digitalSignature
        else { return .failsToMeetPolicy(reason: "the leaf's key usage is not digitalSignature") }
        guard case .isCertificateAuthority = try intermediate.basicConstraints
        else { return .failsToMeetPolicy(reason: "the intermediate is not a certificate authority") }
        guard let intermediateUsage = try intermediate.keyUsage, intermediateUsage.keyCertSign
        else { return .failsToMeetPolicy(reason: "the intermediate's key usage is not keyCertSign") }
        return .meetsPolicy
    }
}
