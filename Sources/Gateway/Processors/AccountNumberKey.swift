import Crypto
import Encodings
public import Payments
public import SecretMemory

// Unsafe: The secret's pointer is used only within the closure. swift-crypto copies the key into memory that it
// wipes.

/// A gateway's key for digests of account numbers. The store keeps a digest with each submitted payment. With the
/// digest, the gateway recognises the account number in later answers, when the number itself is no longer in memory.
///
/// The key is never in the store, and a digest without the key reveals nothing. An attacker with both could guess the
/// few unknown digits of a number. Therefore a digest is removed as soon as the payment's result is known.
public final class AccountNumberKey: Sendable {
    private let secret: SecretBytes

    /// Makes a key from its 32 bytes.
    public init(_ secret: consuming SecretBytes) {
        precondition(secret.count == RandomKeyFile.byteCount)
        self.secret = secret
    }

    /// A name of 8 hex digits for logs. Two gateways with the same key log the same name.
    public var name: String {
        Hexadecimal.encode(Array(HMAC<SHA256>.authenticationCode(for: Array("name".utf8), using: key).prefix(4)))
    }

    /// Returns one byte with the number of digits, followed by HMAC-SHA256 over the transaction's identifier and the
    /// digits. Digests of two payments with the same card are unrelated.
    public func digest(of accountNumber: borrowing SecretBytes, in transaction: [UInt8]) -> [UInt8] {
        var code = HMAC<SHA256>(key: key)
        code.update(data: transaction)
        unsafe accountNumber.withUnsafeBytes { unsafe code.update(data: $0) }
        return [UInt8(clamping: accountNumber.count)] + Array(code.finalize())
    }

    /// Returns the outcome with every text masked that contains the payment's account number. The number is found even
    /// with separators between its digits and with other text around it.
    public func masked(_ outcome: PaymentOutcome, of transaction: PaymentTransaction) -> PaymentOutcome {
        guard let digest = transaction.accountDigest, let count = digest.first.map(Int.init), count > 0 else {
            return outcome
        }
        let (key, code) = (key, Array(digest.dropFirst()))
        return outcome.masked { digits in
            digits.indices.dropLast(min(count - 1, digits.count)).contains { first in
                HMAC<SHA256>.isValidAuthenticationCode(
                    code, authenticating: transaction.identifier + digits[first..<first + count], using: key)
            }
        }
    }

    private var key: SymmetricKey { unsafe secret.withUnsafeBytes { unsafe SymmetricKey(data: $0) } }
}
